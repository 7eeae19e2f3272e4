// SPDX-License-Identifier: Apache-2.0
#include "base/text/visible.h"

#include <gtest/gtest.h>

namespace remesh {
namespace {

TEST(VisibleTest, WhatShowsItselfStays) {
  for (const char* text : {"", "jobs/a/states/s", "a\tb\nc", "\\u202e", "\u00e9 \u4e2d \U0001f600",
                           "\u00a0\u2027\u202f\uffff\U0010ffff"}) {
    EXPECT_EQ(Visible(text), text);
  }
}

TEST(VisibleTest, ControlsAreEscaped) {
  EXPECT_EQ(Visible("a\x1b[2J\r\x7f"), "a\\x1b[2J\\x0d\\x7f");
  EXPECT_EQ(Visible(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Visible("\u0080\u009b1m\u009f"), "\\u0080\\u009b1m\\u009f");
}

TEST(VisibleTest, WhatTurnsOrHidesTextIsEscaped) {
  EXPECT_EQ(Visible("txt.\u202egnp"), "txt.\\u202egnp");
  EXPECT_EQ(Visible("\u2066\u2069\u200b\ufeff\u2028"), "\\u2066\\u2069\\u200b\\ufeff\\u2028");
  EXPECT_EQ(Visible("\U000e0041"), "\\U000e0041");
}

TEST(VisibleTest, BytesThatAreNoCharactersAreEscaped) {
  EXPECT_EQ(Visible("\xff"
                    "a\xc3"),
            "\\xffa\\xc3");
  EXPECT_EQ(Visible("\x9b"
                    "1m"),
            "\\x9b1m");                                   // C1 as terminals without UTF-8 read it
  EXPECT_EQ(Visible("\xc0\x80"), "\\xc0\\x80");           // longer than need be
  EXPECT_EQ(Visible("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(Visible("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(VisibleTest, TwiceIsOnce) {
  const std::string once = Visible("\x1b\u202e\xff");
  EXPECT_EQ(Visible(once), once);
}

}  // namespace
}  // namespace remesh

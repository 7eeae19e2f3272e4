// SPDX-License-Identifier: Apache-2.0
#include "base/text/units.h"

#include <gtest/gtest.h>

namespace remesh {
namespace {

using std::chrono::milliseconds;

TEST(UnitsTest, FormatsReadBack) {
  for (const int64_t bytes :
       {int64_t{0}, int64_t{1}, int64_t{1023}, int64_t{1} << 20, int64_t{3} << 30}) {
    EXPECT_EQ(ParseBytes(FormatByteSize(bytes)).value(), bytes);
  }
  EXPECT_EQ(FormatByteSize(256 << 20), "256MiB");
  EXPECT_EQ(FormatDuration(milliseconds(1500)), "1500ms");
}

TEST(UnitsTest, Sizes) {
  EXPECT_EQ(ParseBytes("1.5 GB").value(), 1'500'000'000);
  EXPECT_EQ(ParseBytes("64MiB").value(), 64 << 20);
  EXPECT_EQ(ParseBytes("1e9").value(), 1'000'000'000);
  EXPECT_EQ(ParseBytes("2.5e-1 KiB").value(), 256);
  EXPECT_EQ(ParseBytes("4096").value(), 4096);
}

TEST(UnitsTest, Rates) {
  EXPECT_EQ(ParseRate("100Gbit/s").value(), 12.5e9);
  EXPECT_EQ(ParseRate("400Gbps").value(), 50e9);
  EXPECT_EQ(ParseRate("12.5 GB/s").value(), 12.5e9);
  EXPECT_EQ(ParseRate("1GiB/s").value(), 1 << 30);
  EXPECT_EQ(ParseRate("8bit/s").value(), 1);
  EXPECT_EQ(ParseRate("1.25e9").value(), 1.25e9);
}

TEST(UnitsTest, Durations) {
  EXPECT_EQ(ParseDuration("1.5h").value(), std::chrono::minutes(90));
  EXPECT_EQ(ParseDuration("1h30m").value(), std::chrono::minutes(90));
  EXPECT_EQ(ParseDuration("2d").value(), std::chrono::hours(48));
  EXPECT_EQ(ParseDuration("0").value(), milliseconds(0));
  EXPECT_FALSE(ParseDuration("5").ok());
  EXPECT_EQ(ParseSeconds("5").value(), 5);
  EXPECT_EQ(ParseSeconds("2us").value(), 2e-6);
  EXPECT_EQ(ParseSeconds("2µs").value(), 2e-6);
  EXPECT_EQ(ParseSeconds("5m").value(), 300);
}

struct Refusal {
  const char* text;
  const char* expectation;
};

TEST(UnitsTest, ARefusalSaysWhatToWrite) {
  const Refusal bytes[] = {
      {"64mib",
       "must have a unit such as MiB, GiB, MB or GB, or none for bytes; did you mean MiB?"},
      {"64G", "must have a unit such as MiB, GiB, MB or GB, or none for bytes; did you mean GB?"},
      {"much", "must be a number of bytes, or a number and a unit, as in 256MiB"},
      {"1e30", "must be at most 4600000TB"},
      {"1GB2", "must be a number of bytes, or a number and a unit, as in 256MiB"},
  };
  for (const Refusal& refusal : bytes)
    EXPECT_EQ(ParseBytes(refusal.text).status().message(), refusal.expectation) << refusal.text;
  const Refusal rates[] = {
      {"100Gb/s", "has an ambiguous unit: write Gbit/s for bits or GB/s for bytes"},
      {"25GB", "must be a rate; did you mean 25GB/s?"},
      {"100Gbit", "must be a rate; did you mean 100Gbit/s?"},
      {"100gbit/s",
       "must have a unit such as GB/s, GiB/s or Gbit/s, or none for bytes per second; did you mean "
       "Gbit?"},
      {"5/s", "must have a unit such as GB/s, GiB/s or Gbit/s, or none for bytes per second"},
  };
  for (const Refusal& refusal : rates)
    EXPECT_EQ(ParseRate(refusal.text).status().message(), refusal.expectation) << refusal.text;
  const Refusal durations[] = {
      {"5", "must have a unit: d, h, m, s, ms, us or ns"},
      {"5 minutes", "must have a unit: d, h, m, s, ms, us or ns"},
      {"soon", "must be a number and a unit, as in 5s or 300ms"},
      {"-5s", "must be a number and a unit, as in 5s or 300ms"},
  };
  for (const Refusal& refusal : durations)
    EXPECT_EQ(ParseDuration(refusal.text).status().message(), refusal.expectation) << refusal.text;
}

TEST(UnitsTest, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(ParseBytes("9e18").status().message(), "must be at most 4600000TB");
  EXPECT_EQ(ParseBytes("4600000TB").value_or(0), 4'600'000'000'000'000'000);
  EXPECT_EQ(ParseDuration("99999999999999999999s").status().message(), "must be at most 53240d");
  EXPECT_TRUE(ParseDuration("53240d").ok());
  EXPECT_EQ(ParseRate("1e308TB/s").status().message(), "must be below 1.8e308 bytes per second");
  EXPECT_EQ(ParseRate("1e302Gbit/s").status().message(), "must be below 1.8e308 bytes per second");
  for (const char* text : {"1e400", "1e400GB", "1e400GB/s", "1e400s", "inf", "nan"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
    EXPECT_FALSE(ParseRate(text).ok()) << text;
    EXPECT_FALSE(ParseSeconds(text).ok()) << text;
  }
}

}  // namespace
}  // namespace remesh

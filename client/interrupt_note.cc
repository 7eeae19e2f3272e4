// SPDX-License-Identifier: Apache-2.0
#include "client/interrupt_note.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "base/check.h"

namespace remesh::client {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<const std::string*> note = nullptr;

// Runs in a signal's handler, where only calls such as write() and raise() are allowed.
void WriteNote(int signal) {
  if (const std::string* text = note.load()) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text->data(), text->size());
  }
  raise(signal);  // SA_RESETHAND: this time it ends the process
}

bool IsAt(int signal, void (*handler)(int)) {
  struct sigaction now = {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == handler;
}

void Set(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptNote::InterruptNote(std::string text) : text_(std::move(text)) {
  REMESH_CHECK(note.exchange(&text_) == nullptr);
  for (const int signal : kSignals) {
    if (IsAt(signal, SIG_DFL)) Set(signal, WriteNote, SA_RESETHAND);
  }
}

InterruptNote::~InterruptNote() {
  for (const int signal : kSignals) {
    if (IsAt(signal, WriteNote)) Set(signal, SIG_DFL, 0);
  }
  note = nullptr;
}

}  // namespace remesh::client

// SPDX-License-Identifier: Apache-2.0
#include "client/commands/write_flags.h"

namespace remesh::client {

void AddWriteFlag(CLI::App& app, std::string& write) {
  app.add_option("--write", write,
                 "Name of this write, the same on all hosts; the training step will do. At most 64 "
                 "bytes. Needed to rewrite a state that is on several hosts");
}

}  // namespace remesh::client

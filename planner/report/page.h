// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::planner {

// The files of page/, put into the binary by the build. The template has the places /*STYLE*/,
// /*SCRIPT*/ and /*DATA*/.
extern const char kPageTemplate[];
extern const char kPageStyle[];
extern const char kPageScript[];

}  // namespace remesh::planner

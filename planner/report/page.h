// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::planner {

// The files of page/, embedded by the build. The template has the placeholders /*STYLE*/,
// /*SCRIPT*/ and /*DATA*/.
extern const char kPageTemplate[];
extern const char kPageStyle[];
extern const char kPageScript[];

}  // namespace remesh::planner

// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh::server {

// Makes one function object of several lambdas, for std::visit.
template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace remesh::server

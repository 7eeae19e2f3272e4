// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace remesh::proto {

// The name of XLA for what safetensors, NumPy, PyTorch or JAX call `name`: "F8_E4M3" -> "f8e4m3fn",
// "torch.bfloat16" -> "bf16", "dtype('float32')" -> "f32"; for other names the one that `name` most
// likely misspells, or "".
std::string NearestXlaType(std::string_view name);

}  // namespace remesh::proto

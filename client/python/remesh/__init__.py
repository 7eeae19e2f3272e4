# SPDX-License-Identifier: Apache-2.0
"""remesh for training controllers: plain Python over gRPC, mmap and NumPy.

    remesh.trainer    a host's side: write shards, seal them, ask for a reshard, read the new ones
    remesh.elements   element types as NumPy sees them
    remesh.oracle     what every element of a test array holds
    remesh.v1         the generated messages and stubs (from proto/remesh/v1)
"""

__version__ = "0.1.0"

# SPDX-License-Identifier: Apache-2.0
"""remesh for training controllers: plain Python over gRPC, mmap and NumPy.

    remesh.trainer    for each host: writes shards, seals them, starts a reshard, reads the new shards
    remesh.elements   element types, mapped to NumPy's
    remesh.oracle     the expected value of every element of a test array
    remesh.v1         the generated messages and stubs (from proto/remesh/v1)
"""

__version__ = "0.1.0"

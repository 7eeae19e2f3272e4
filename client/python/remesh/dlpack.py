# SPDX-License-Identifier: Apache-2.0
"""DLPack capsules (dlpack.h, version 0) of plain bytes, by which JAX, torch, CuPy and NumPy share
memory of other libraries."""

import ctypes

CPU, CUDA = 1, 2  # DLDeviceType


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_UINT = 1  # DLDataTypeCode
_NAME = b"dltensor"  # until a consumer takes it over, and renames it
_api = ctypes.pythonapi
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", _api)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)

# What a capsule speaks of, and the memory under it, by the address of its _Managed: until its
# consumer is done.
_in_use = {}


@_Deleter
def _delete(managed):
    _in_use.pop(ctypes.addressof(managed.contents), None)


@_Destructor
def _destroy(capsule):
    if _is_valid(capsule, _NAME):  # no consumer took it over
        _in_use.pop(_pointer_of(capsule, _NAME), None)


def capsule(pointer: int, count: int, kind: int, index: int, memory):
    """A capsule of `count` bytes at an address of a device, as uint8. Keeps `memory` until the
    consumer releases the bytes."""
    shape = (ctypes.c_int64 * 1)(count)
    managed = _Managed(
        tensor=_Tensor(
            data=pointer,
            device=_Device(kind, index),
            rank=1,
            dtype=_DataType(_UINT, 8, 1),
            shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
            strides=None,
            byte_offset=0,
        ),
        context=None,
        deleter=_delete,
    )
    _in_use[ctypes.addressof(managed)] = (managed, shape, memory)
    return _new_capsule(ctypes.addressof(managed), _NAME, _destroy)

// SPDX-License-Identifier: Apache-2.0
#pragma once

// REMESH_SANITIZED is 1 where AddressSanitizer or ThreadSanitizer owns the heap, else 0. gcc defines
// a macro for each; clang defines neither and has __has_feature().
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REMESH_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define REMESH_SANITIZED 1
#endif
#endif

#ifndef REMESH_SANITIZED
#define REMESH_SANITIZED 0
#endif

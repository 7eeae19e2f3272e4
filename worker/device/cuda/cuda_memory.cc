// SPDX-License-Identifier: Apache-2.0
#include "worker/device/cuda/cuda_memory.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/int_math.h"
#include "base/status_macros.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_status.h"
#include "worker/device/device_error.h"

namespace remesh::worker {

absl::Status CudaStatus(std::string_view device, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  return DeviceError(device, cudaGetErrorName(error), cudaGetErrorString(error));
}

namespace {

// The driver's functions for virtual memory. The runtime has none, and a binary linked with the
// driver's library would not start on a machine without the driver.
struct VirtualMemoryApi {
  decltype(&cuDeviceGetAttribute) get_attribute = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free_address = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemExportToShareableHandle) export_handle = nullptr;
  decltype(&cuMemImportFromShareableHandle) import_handle = nullptr;
};

template <typename Function>
bool Find(const char* name, Function& function) {
  constexpr unsigned kSince = 11030;  // the driver version with the signatures of cuda.h
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  if (cudaGetDriverEntryPointByVersion(name, &found, kSince, cudaEnableDefault, &result) !=
          cudaSuccess ||
      result != cudaDriverEntryPointSuccess) {
    return false;
  }
  function = reinterpret_cast<Function>(found);
  return true;
}

std::optional<VirtualMemoryApi> FindApi() {
  VirtualMemoryApi api;
  const bool all = Find("cuDeviceGetAttribute", api.get_attribute) &&
                   Find("cuMemGetAllocationGranularity", api.granularity) &&
                   Find("cuMemCreate", api.create) && Find("cuMemRelease", api.release) &&
                   Find("cuMemAddressReserve", api.reserve) &&
                   Find("cuMemAddressFree", api.free_address) && Find("cuMemMap", api.map) &&
                   Find("cuMemUnmap", api.unmap) && Find("cuMemSetAccess", api.set_access) &&
                   Find("cuMemExportToShareableHandle", api.export_handle) &&
                   Find("cuMemImportFromShareableHandle", api.import_handle);
  if (!all) return std::nullopt;
  return api;
}

const std::optional<VirtualMemoryApi>& Api() {
  static const std::optional<VirtualMemoryApi> api = FindApi();
  return api;
}

bool Has(int index, CUdevice_attribute attribute) {
  int value = 0;
  return Api()->get_attribute(&value, attribute, index) == CUDA_SUCCESS && value != 0;
}

bool CanExport(int index) {
  return Api().has_value() && Has(index, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
         Has(index, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
}

CUmemAllocationProp ExportableOn(int index) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = index};
  prop.allocFlags.gpuDirectRDMACapable =
      Has(index, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
  return prop;
}

// Physical memory mapped to addresses. The destructor releases as much of it as was made.
struct Mapping {
  int index = 0;
  size_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  bool mapped = false;

  ~Mapping() {
    cudaSetDevice(index);
    if (mapped) Api()->unmap(address, bytes);
    if (address != 0) Api()->free_address(address, bytes);
    if (handle != 0) Api()->release(handle);
  }

  // Sets `bytes` to `wanted`, rounded up to whole units of the driver's granularity.
  CUresult RoundUp(const CUmemAllocationProp& prop, size_t wanted) {
    size_t unit = 0;
    const CUresult result = Api()->granularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (result == CUDA_SUCCESS) bytes = (wanted + unit - 1) / unit * unit;
    return result;
  }

  CUresult Make(const std::vector<int>& peers, size_t wanted) {
    const CUmemAllocationProp prop = ExportableOn(index);
    CUresult result = RoundUp(prop, wanted);
    if (result != CUDA_SUCCESS) return result;
    if ((result = Api()->create(&handle, bytes, &prop, 0)) != CUDA_SUCCESS) return result;
    return Map(peers);
  }

  CUresult Import(const std::vector<int>& peers, int exported, size_t wanted) {
    CUresult result = RoundUp(ExportableOn(index), wanted);
    if (result != CUDA_SUCCESS) return result;
    // The driver expects the descriptor's value in the pointer argument.
    void* const descriptor = reinterpret_cast<void*>(static_cast<intptr_t>(exported));
    result = Api()->import_handle(&handle, descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    return result == CUDA_SUCCESS ? Map(peers) : result;
  }

  CUresult Map(const std::vector<int>& peers) {
    CUresult result = Api()->reserve(&address, bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS) return result;
    if ((result = Api()->map(address, bytes, 0, handle, 0)) != CUDA_SUCCESS) return result;
    mapped = true;
    std::vector<CUmemAccessDesc> access;
    auto add = [&access](int gpu) {
      access.push_back({.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu},
                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    };
    add(index);
    for (int peer : peers) add(peer);
    return Api()->set_access(address, bytes, access.data(), access.size());
  }
};

// Number of bytes from an address to the end of its allocation; 0: the driver does not know it.
int64_t BytesFrom(const void* data) {
  static const auto get_range = [] {
    decltype(&cuMemGetAddressRange) function = nullptr;
    Find("cuMemGetAddressRange", function);
    return function;
  }();
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  if (get_range == nullptr || get_range(&begin, &bytes, address) != CUDA_SUCCESS) return 0;
  return static_cast<int64_t>(bytes - (address - begin));
}

// The runtime's error for a driver result. Both interfaces use the same numbers, by design.
cudaError_t ErrorOf(CUresult result) {
  if (result == CUDA_SUCCESS) return cudaSuccess;
  return result == CUDA_ERROR_OUT_OF_MEMORY ? cudaErrorMemoryAllocation
                                            : static_cast<cudaError_t>(result);
}

std::shared_ptr<std::byte> AddressOf(const std::shared_ptr<Mapping>& mapping) {
  return {mapping, reinterpret_cast<std::byte*>(mapping->address)};
}

cudaError_t MapMemory(int index, const std::vector<int>& peers, size_t bytes,
                      std::shared_ptr<std::byte>& memory) {
  auto mapping = std::make_shared<Mapping>();
  mapping->index = index;
  const cudaError_t error = ErrorOf(mapping->Make(peers, bytes));
  if (error == cudaSuccess) memory = AddressOf(mapping);
  return error;
}

cudaError_t PlainMemory(int index, size_t bytes, std::shared_ptr<std::byte>& memory) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error != cudaSuccess) return error;
  memory = {static_cast<std::byte*>(data), [index](std::byte* at) {
              cudaSetDevice(index);
              cudaFree(at);
            }};
  return cudaSuccess;
}

}  // namespace

absl::StatusOr<std::shared_ptr<std::byte>> AllocateOnGpu(const std::string& device, int index,
                                                         const std::vector<int>& peers,
                                                         int64_t bytes) {
  REMESH_CUDA_OR_RETURN(device, cudaSetDevice(index));
  size_t free_bytes = 0, all_bytes = 0;
  REMESH_CUDA_OR_RETURN(device, cudaMemGetInfo(&free_bytes, &all_bytes));
  const size_t wanted = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  cudaError_t error = cudaErrorMemoryAllocation;
  std::shared_ptr<std::byte> memory;
  const bool fits = wanted <= free_bytes;
  if (fits && CanExport(index)) error = MapMemory(index, peers, wanted, memory);
  if (fits && memory == nullptr) error = PlainMemory(index, wanted, memory);
  if (error == cudaSuccess) return memory;
  cudaGetLastError();  // a refusal must not stay as the last error
  if (error == cudaErrorMemoryAllocation) {
    return DeviceMemoryExhausted(device, bytes, static_cast<int64_t>(free_bytes));
  }
  return CudaStatus(device, error);
}

absl::StatusOr<SharedMemory> ShareOnGpu(const std::string& device, int index,
                                        const std::vector<int>& peers, int64_t bytes) {
  REMESH_CUDA_OR_RETURN(device, cudaSetDevice(index));
  if (!CanExport(index)) return NoSharedMemory(device, "the driver exports none as a descriptor");
  size_t free_bytes = 0, all_bytes = 0;
  REMESH_CUDA_OR_RETURN(device, cudaMemGetInfo(&free_bytes, &all_bytes));
  auto mapping = std::make_shared<Mapping>();
  mapping->index = index;
  cudaError_t error = static_cast<size_t>(bytes) <= free_bytes
                          ? ErrorOf(mapping->Make(peers, std::max<int64_t>(bytes, 1)))
                          : cudaErrorMemoryAllocation;
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return DeviceMemoryExhausted(device, bytes, static_cast<int64_t>(free_bytes));
  }
  RETURN_IF_ERROR(CudaStatus(device, error));
  SharedMemory shared{AddressOf(mapping), Fd()};
  REMESH_CUDA_OR_RETURN(device, cudaMemset(shared.memory.get(), 0, mapping->bytes));
  REMESH_CUDA_OR_RETURN(device, cudaStreamSynchronize(cudaStreamLegacy));
  int descriptor = -1;
  error = ErrorOf(Api()->export_handle(&descriptor, mapping->handle,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  RETURN_IF_ERROR(CudaStatus(device, error));
  shared.handle.Reset(descriptor);
  return shared;
}

absl::StatusOr<std::shared_ptr<std::byte>> ImportOnGpu(const std::string& device, int index,
                                                       const std::vector<int>& peers, int handle,
                                                       int64_t bytes) {
  REMESH_CUDA_OR_RETURN(device, cudaSetDevice(index));
  if (!CanExport(index)) return NoSharedMemory(device, "the driver imports none of a descriptor");
  auto mapping = std::make_shared<Mapping>();
  mapping->index = index;
  const CUresult result = mapping->Import(peers, handle, std::max<int64_t>(bytes, 1));
  if (result == CUDA_SUCCESS) return AddressOf(mapping);
  return NoSuchMemory(device, bytes, cudaGetErrorName(ErrorOf(result)));
}

absl::StatusOr<std::shared_ptr<std::byte>> ImportIpcOnGpu(const std::string& device, int index,
                                                          std::string_view handle, int64_t bytes) {
  cudaIpcMemHandle_t opaque;
  static_assert(sizeof(opaque) == kIpcHandleBytes);
  if (handle.size() != sizeof(opaque))
    return NoSuchMemory(device, bytes, "it is none of the legacy IPC");
  std::memcpy(&opaque, handle.data(), sizeof(opaque));
  REMESH_CUDA_OR_RETURN(device, cudaSetDevice(index));
  void* data = nullptr;
  const cudaError_t error = cudaIpcOpenMemHandle(&data, opaque, cudaIpcMemLazyEnablePeerAccess);
  if (error != cudaSuccess) {
    cudaGetLastError();  // a refusal must not stay as the last error
    const bool own = error == cudaErrorDeviceUninitialized;
    return NoSuchMemory(device, bytes,
                        own ? "a process cannot open what it allocated itself"
                            : std::string(cudaGetErrorName(error)));
  }
  std::shared_ptr<std::byte> memory(static_cast<std::byte*>(data), [index](std::byte* at) {
    cudaSetDevice(index);
    cudaIpcCloseMemHandle(at);
  });
  // Checks the device and the size, which the sender of the handle may have got wrong: a read past
  // the end puts the whole context into error.
  cudaPointerAttributes attributes{};
  REMESH_CUDA_OR_RETURN(device, cudaPointerGetAttributes(&attributes, data));
  if (attributes.device != index) return NoSuchMemory(device, bytes, "it is of another GPU");
  const int64_t there = BytesFrom(data);
  if (there == 0) return NoSuchMemory(device, bytes, "the driver does not say how long it is");
  if (there < bytes) return NoSuchMemory(device, bytes, absl::StrCat("it is of ", there));
  return memory;
}

std::string UuidOfGpu(int index) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) return "";
  std::string uuid = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) uuid += '-';
    absl::StrAppendFormat(&uuid, "%02x", static_cast<uint8_t>(properties.uuid.bytes[i]));
  }
  return uuid;
}

absl::StatusOr<std::shared_ptr<std::byte>> AllocatePinned(int64_t bytes) {
  void* data = nullptr;
  const cudaError_t error =
      cudaHostAlloc(&data, static_cast<size_t>(std::max<int64_t>(bytes, 1)), cudaHostAllocPortable);
  if (error == cudaSuccess) {
    return std::shared_ptr<std::byte>(static_cast<std::byte*>(data),
                                      [](std::byte* at) { cudaFreeHost(at); });
  }
  cudaGetLastError();
  if (error == cudaErrorMemoryAllocation) return DeviceMemoryExhausted("host", bytes, 0);
  return CudaStatus("host", error);
}

namespace {

// Pinned host memory, with a count of its users: an attempt may begin on memory that the attempt
// before it has not released yet.
class PinnedMemory {
 public:
  static PinnedMemory& Get() {
    static auto* const all = new PinnedMemory;
    return *all;
  }

  cudaError_t Pin(std::span<std::byte> host) {
    absl::MutexLock lock(&mutex_);
    int& users = users_[host.data()];
    if (users == 0) {
      const cudaError_t error = cudaHostRegister(host.data(), host.size(),
                                                 cudaHostRegisterPortable | cudaHostRegisterMapped);
      if (error != cudaSuccess) {
        cudaGetLastError();
        users_.erase(host.data());
        return error;
      }
    }
    ++users;
    return cudaSuccess;
  }

  void Unpin(int index, std::byte* data) {
    absl::MutexLock lock(&mutex_);
    if (--users_[data] > 0) return;
    users_.erase(data);
    cudaSetDevice(index);
    cudaHostUnregister(data);
  }

 private:
  absl::Mutex mutex_;
  std::map<std::byte*, int> users_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::shared_ptr<std::byte>> RegisterWithGpu(const std::string& device, int index,
                                                           std::span<std::byte> host) {
  REMESH_CUDA_OR_RETURN(device, cudaSetDevice(index));
  REMESH_CUDA_OR_RETURN(device, PinnedMemory::Get().Pin(host));
  const std::shared_ptr<void> pinned(host.data(), [index](void* data) {
    PinnedMemory::Get().Unpin(index, static_cast<std::byte*>(data));
  });
  void* address = nullptr;
  REMESH_CUDA_OR_RETURN(device, cudaHostGetDevicePointer(&address, host.data(), 0));
  return std::shared_ptr<std::byte>(pinned, static_cast<std::byte*>(address));
}

}  // namespace remesh::worker

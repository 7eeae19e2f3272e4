# The toolkit that compiles worker/device/cuda: one that is installed, the one below
# $REMESH_CUDA_ROOT, or what scripts/cuda-toolkit fetched (which touches this file, so that trees
# are configured anew). Not CMake's language CUDA: its probes take longer than our one file, and the
# flags of C++ here are not nvcc's.
set(REMESH_CUDA AUTO CACHE STRING "The CUDA device: ON, OFF, or AUTO: if there is a toolkit")
set(REMESH_CUDA_MIN 12.8)  # the first that knows sm_100
set(REMESH_CUDA_FOUND OFF)

function(remesh_find_cuda)
  find_program(REMESH_NVCC nvcc HINTS $ENV{REMESH_CUDA_ROOT}/bin $ENV{CUDA_HOME}/bin
    /usr/local/cuda/bin ${PROJECT_SOURCE_DIR}/build/cuda/bin)
  if(NOT REMESH_NVCC)
    set(problem
      "no nvcc is installed, nor below $REMESH_CUDA_ROOT; scripts/cuda-toolkit fetches one")
  else()
    file(REAL_PATH ${REMESH_NVCC} nvcc)
    cmake_path(GET nvcc PARENT_PATH root)
    cmake_path(GET root PARENT_PATH root)
    execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE version ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" version "${version}")
    if(CMAKE_MATCH_1 VERSION_LESS REMESH_CUDA_MIN)
      set(problem "${nvcc} is not of CUDA ${REMESH_CUDA_MIN} or later")
    elseif(NOT EXISTS ${root}/lib64/libcudart_static.a
        OR NOT EXISTS ${root}/include/cuda_runtime_api.h)
      set(problem "${root} holds nvcc, but not the runtime")
    endif()
  endif()
  if(NOT problem)
    message(STATUS "CUDA device: built with ${nvcc}, CUDA ${CMAKE_MATCH_1}")
    set(REMESH_CUDA_FOUND ON PARENT_SCOPE)
    set(REMESH_CUDA_COMPILER ${nvcc} PARENT_SCOPE)
    set(REMESH_CUDA_ROOT ${root} PARENT_SCOPE)
  elseif(REMESH_CUDA STREQUAL AUTO)
    message(STATUS "CUDA device: not built, ${problem}")
  else()
    message(FATAL_ERROR "REMESH_CUDA=ON, but ${problem}")
  endif()
endfunction()

if(REMESH_CUDA)
  remesh_find_cuda()
else()
  message(STATUS "CUDA device: not built, REMESH_CUDA=${REMESH_CUDA}")
endif()

# remesh_cuda_object(NAME run_table SRC run_table.cu DEPENDS headers): machine code of the GPUs in
# use, and PTX for those to come. Sets ${NAME}_object. Says how long it took.
function(remesh_cuda_object)
  cmake_parse_arguments(ARG "" "NAME;SRC" "DEPENDS" ${ARGN})
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}.o)
  set(targets "")
  foreach(arch 80 90 100)
    list(APPEND targets -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  list(APPEND targets -gencode arch=compute_100,code=compute_100)
  find_program(REMESH_CCACHE ccache)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_COMMAND} -E time $<$<BOOL:${REMESH_CCACHE}>:${REMESH_CCACHE}>
      ${REMESH_CUDA_COMPILER} -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3
      --threads 2 ${targets} -I${PROJECT_SOURCE_DIR}
      -c ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SRC} -o ${object}
    DEPENDS ${ARG_SRC} ${ARG_DEPENDS} COMMENT "Building CUDA object ${ARG_SRC}" VERBATIM)
  set(${ARG_NAME}_object ${object} PARENT_SCOPE)
endfunction()

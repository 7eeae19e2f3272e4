# One image for remesh-server, remesh-worker, remesh-keeper and remeshctl; runs as a user without rights on a read-only root.
#   docker build -t remesh .                    compiles everything from this folder
#   scripts/image                               the same image from binaries that scripts/build made, without a daemon
# Where a proxy signs with a CA of its own: --secret id=ca,src=/etc/ssl/certs/ca-certificates.crt
ARG BASE=docker.io/library/debian:bookworm-slim
# build: compile; prebuilt: take dist/bin of the context.
ARG BINARIES=build
# none; pypi: the library for transport nccl, and with BINARIES=build the CUDA device. The driver comes with NVIDIA's container runtime.
ARG NCCL=none

FROM ${BASE} AS build
ARG NCCL
WORKDIR /src
COPY scripts/packages.txt scripts/
# Debian's stable release is the pin of these versions. A browser and a Prometheus are only for tests.
# hadolint ignore=DL3008
RUN apt-get update -qq \
 && sed -E -e 's/#.*//' -e '/^(chromium|prometheus|shellcheck|clang-14|libclang-rt-14-dev|)[[:space:]]*$/d' scripts/packages.txt > /tmp/packages \
 && DEBIAN_FRONTEND=noninteractive xargs --arg-file=/tmp/packages apt-get install -y -qq --no-install-recommends \
 && rm -rf /var/lib/apt/lists/* /tmp/packages
COPY . .
RUN --mount=type=secret,id=ca \
    if [ -e /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
 && if [ "$NCCL" = pypi ]; then scripts/cuda-toolkit; fi \
 && cmake --preset release \
 && cmake --build build/release --target remesh-keeper remesh-server remesh-worker remeshctl \
 && install -D -s -t /dist/bin build/release/bin/remesh-keeper build/release/bin/remesh-server build/release/bin/remesh-worker build/release/bin/remeshctl

FROM ${BASE} AS prebuilt
COPY dist/bin/ /dist/bin/

# hadolint ignore=DL3006
FROM ${BINARIES} AS binaries

FROM ${BASE} AS nccl-none
RUN mkdir -p /nccl/lib /nccl/share/doc

FROM ${BASE} AS nccl-pypi
COPY scripts/nccl.txt /tmp/
# hadolint ignore=DL3008,DL3042
RUN --mount=type=secret,id=ca \
    if [ -e /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-pip \
 && python3 -m pip install --quiet --no-deps --require-hashes --no-compile --root-user-action=ignore --target /tmp/packages --requirement /tmp/nccl.txt \
 && install -D -m 0644 -t /nccl/lib /tmp/packages/nvidia/nccl/lib/libnccl.so.2 \
 && install -D -m 0644 -t /nccl/share/doc/nccl /tmp/nccl.txt \
 && find /tmp/packages -type f -iname 'license*' -exec install -m 0644 -t /nccl/share/doc/nccl {} +

# hadolint ignore=DL3006
FROM nccl-${NCCL} AS nccl

FROM ${BASE} AS runtime
# ibverbs-providers: the drivers of InfiniBand and RoCE cards, for ucx_tls: rc,ud,tcp.
# hadolint ignore=DL3008
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      libgrpc++1.51 libprometheus-cpp-core1.0 libucx0 ibverbs-providers libyaml-cpp0.7 libsqlite3-0 libssl3 libxxhash0 libzstd1 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/*
COPY --from=binaries /dist/bin/ /usr/local/bin/
COPY --from=nccl /nccl/ /usr/local/
COPY packaging/image/sbom /tmp/sbom
# An image whose binaries do not start is not built.
RUN ldconfig \
 && for binary in remesh-keeper remesh-server remesh-worker remeshctl; do "$binary" --version || exit 1; done \
 && mkdir -p /usr/share/remesh \
 && sh /tmp/sbom > /usr/share/remesh/sbom.spdx \
 && rm /tmp/sbom

ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="remesh" \
      org.opencontainers.image.description="Moves the state of a live training job from one sharding to another" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      remesh.sbom="/usr/share/remesh/sbom.spdx"
USER 65532:65532
WORKDIR /
STOPSIGNAL SIGTERM
CMD ["remesh-server", "--help"]

// SPDX-License-Identifier: Apache-2.0
#include "service/front/front_door.h"

#include <utility>

namespace remesh::service {

FrontDoor::FrontDoor(grpc::ServerBuilder& builder, size_t memory_bytes) : pollers_(builder) {
  LimitCallers(builder, memory_bytes);
}

void FrontDoor::Open(std::vector<Fd> listeners, std::vector<Taker> takers, Options options) {
  pollers_.Start();
  hand_over_ = std::make_unique<HandOver>(std::move(takers));
  options.on_shutdown = [this](int connection) { hand_over_->Drop(connection); };
  accepts_ =
      std::make_unique<AcceptLoop>(std::move(listeners), std::move(options),
                                   [this](int connection) { hand_over_->Pass(Fd(connection)); });
}

void FrontDoor::Shutdown(grpc::Server& server, std::chrono::nanoseconds grace) {
  accepts_->Retire(grace);
  hand_over_->Close();
  server.Shutdown(std::chrono::system_clock::now() +
                  std::chrono::duration_cast<std::chrono::system_clock::duration>(grace));
  server.Wait();
}

}  // namespace remesh::service

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "remesh/v1/admin.grpc.pb.h"
#include "server/grpc/unary.h"

namespace remesh::server {

class AdminService : public v1::AdminService::CallbackService {
 public:
  // `describe` answers GetServer; it must outlive the service.
  AdminService(const Backend& backend, const std::function<v1::ServerInfo()>& describe)
      : backend_(backend), describe_(describe) {}

  grpc::ServerUnaryReactor* GetServer(grpc::CallbackServerContext* context,
                                      const v1::GetServerRequest* request,
                                      v1::ServerInfo* response) override;
  grpc::ServerWriteReactor<v1::BackUpJournalResponse>* BackUpJournal(
      grpc::CallbackServerContext* context, const v1::BackUpJournalRequest* request) override;

 private:
  const Backend backend_;
  const std::function<v1::ServerInfo()>& describe_;
};

}  // namespace remesh::server

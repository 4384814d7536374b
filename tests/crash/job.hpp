// A complete job that runs after processes have died. It must find a working pool.
#pragma once

#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "crash_test_base.hpp"
#include "recorder.hpp"

namespace penstock::crash {

inline constexpr std::uint64_t limit_ns = 20'000'000'000;  ///< deadline for everything here

inline std::unique_ptr<transport::Endpoint> open_endpoint(const Attached& side,
                                                          transport::EndpointCallbacks& callbacks) {
  auto endpoint = transport::Endpoint::open(*side.arena, callbacks, {"crash"});
  if (!endpoint) throw std::runtime_error(endpoint.error().message);
  return std::move(*endpoint);
}

/// Each of `participants` sends messages of all kinds to the next. False if that takes too long, or
/// if a message does not arrive as it was sent.
inline bool exchange(const std::string& spec, std::uint32_t participants) {
  struct Participant {
    Attached side;
    Recorder callbacks;
    std::unique_ptr<transport::Endpoint> endpoint;
  };
  std::deque<Participant> all(participants);
  for (std::uint32_t i = 0; i < participants; ++i) {
    all[i].side = attach(spec, {.rank = static_cast<int>(i), .job = "next", .emulated_node = i});
    all[i].endpoint = open_endpoint(all[i].side, all[i].callbacks);
  }
  std::deque<std::vector<std::byte>> data;
  std::deque<transport::SendOp> ops;
  const std::uint64_t sizes[] = {8, 3000, 100'000};
  for (std::uint32_t i = 0; i < participants; ++i) {
    Participant &from = all[i], &to = all[(i + 1) % participants];
    const transport::Peer peer = *from.endpoint->resolve(to.endpoint->address());
    for (std::uint64_t tag = 0; tag < 3; ++tag) {
      data.push_back(content(tag, sizes[tag]));
      transport::SendOp& op = ops.emplace_back();
      op.header = {tag, 0, sizes[tag], 0};
      op.iov[0] = {data.back().data(), data.back().size()};
      op.iov_count = 1;
      if (!from.endpoint->send(peer, &op)) return false;
    }
  }
  const std::uint64_t end = base::now_ns() + limit_ns;
  const auto finished = [&] {
    unsigned done = 0;
    for (Participant& one : all) {
      one.endpoint->progress();
      done += one.callbacks.arrived == 3 && one.endpoint->drained();
    }
    return done == participants;
  };
  while (!finished()) {
    if (base::now_ns() > end) return false;
  }
  for (Participant& one : all) {
    if (one.callbacks.damaged != 0 || !one.callbacks.dead.empty()) return false;
  }
  return true;
}

/// Runs the job in a process of its own, with `participants` endpoints.
inline void expect_job_works(const std::string& spec, std::uint32_t participants) {
  pool::Child job([&](const pool::Child::Report&) {
    try {
      return exchange(spec, participants) ? 0 : 1;
    } catch (const std::exception& error) {
      fmt::print(stderr, "job of {}: {}\n", participants, error.what());
      return 2;
    }
  });
  EXPECT_EQ(job.wait(), 0) << "a job of " << participants;
}

}  // namespace penstock::crash

// Messengers for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "messages/messenger.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::messages {

/// Three ranks of one process; the second one plays a separate host.
class Messages : public testing::Test {
 protected:
  static constexpr std::uint32_t ranks = 3;

  void SetUp() override {
    pool::CreateOptions options;
    options.spec = spec_;
    options.bytes = 64 << 20;
    ASSERT_TRUE(pool::create(options));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      sides_.push_back(transport::attach(spec_, static_cast<int>(rank), rank == 1 ? 1 : 0));
      auto opened = Messenger::open(*sides_[rank].arena, {.self = rank, .ranks = ranks});
      ASSERT_TRUE(opened) << opened.error().message;
      of_.push_back(std::move(*opened));
    }
    for (auto& messenger : of_) {
      for (std::uint32_t rank = 0; rank < ranks && meet_; ++rank)
        ASSERT_TRUE(messenger->meet(rank, of_[rank]->address()));
    }
  }
  void TearDown() override {
    let_them_go_on();
    of_.clear();
    for (auto& side : sides_) side.detach();
    (void)pool::remove(spec_, true);
  }
  void let_them_go_on() {
    for (int i = 0; i < 2000; ++i) progress();
  }
  void progress() {
    for (auto& messenger : of_) {
      if (messenger != nullptr) messenger->progress();
    }
  }
  void finish(const Request& request) {
    const std::uint64_t end = base::now_ns() + 20'000'000'000ull;
    while (!request.done) {
      progress();
      ASSERT_LT(base::now_ns(), end) << "the requests do not complete";
    }
  }

  bool meet_ = true;  ///< all ranks, in SetUp()
  std::string spec_ = transport::unique_spec();
  std::vector<transport::Attachment> sides_;
  std::vector<std::unique_ptr<Messenger>> of_;
};

}  // namespace penstock::messages

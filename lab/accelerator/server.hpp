// A process that plays the switch of a pool: it takes the claim, joins the jobs whose communicators
// ask for it, and serves them. Protocol: docs/protocols/switch.md.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerator/served.hpp"
#include "offload/directory.hpp"

namespace penstock::accelerator {

struct ServerOptions {
  /// Attaches to the pool: once for the claim, and once for each job that is served.
  std::function<Result<std::unique_ptr<pool::Pool>>(const pool::AttachOptions&)> attach;
  offload::Role role = {};
  std::uint64_t missing_after_ns = 0;  ///< as of Served
};

/// Used by one thread.
///
///     auto server = Server::open({.attach = [&](pool::AttachOptions options) {
///       options.spec = spec;
///       return pool::Pool::attach(options);
///     }});
///     while (!ended) (*server)->poll();
///     (*server)->close();
class Server {
 public:
  /// Takes the claim. Errors: those of attaching and of offload::take_claim().
  static Result<std::unique_ptr<Server>> open(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Looks once at the asks of communicators, and once at each communicator that is served. Returns
  /// true if anything has happened.
  bool poll();
  /// Gives the claim back and lets go of all communicators: their ranks go on through the plain
  /// pool.
  Result<void> close();

  /// Set if another switch has taken the claim, because it found a dead switch's claim in place of
  /// this one's: this server is then closed.
  const std::optional<Error>& lost() const { return lost_; }

  std::size_t communicators() const { return served_.size(); }
  std::uint64_t communicators_ever() const { return accepted_; }
  Counts counts() const;
  pool::Pool& pool() { return *pool_; }

 private:
  struct Job {
    std::string name;
    std::unique_ptr<pool::Pool> pool;
  };
  struct Client {
    std::shared_ptr<Job> job;
    std::unique_ptr<Served> served;
  };
  using Words = std::array<std::uint64_t, offload::asks_of_a_process>;
  Server(ServerOptions options, std::unique_ptr<pool::Pool> pool,
         std::unique_ptr<arena::Arena> arena, offload::Directory directory);

  bool look_at_asks();
  void note_old_asks();
  void take(std::uint32_t slot, std::uint32_t word, offload::Ask ask);
  offload::Answer accept(std::uint32_t slot, std::uint32_t word, offload::Ask ask);
  Result<std::shared_ptr<Job>> join(const std::string& name);
  void answer(std::uint32_t slot, std::uint32_t word, std::uint64_t value);
  bool has_claim();
  void stop_serving(std::uint64_t key);
  void look_after();

  ServerOptions options_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<arena::Arena> arena_;
  offload::Directory directory_;
  std::vector<Words> asked_;      ///< by slot: the asks that were taken
  std::vector<Words> seen_asks_;  ///< by slot: the asks read by this look
  std::map<std::string, std::weak_ptr<Job>> jobs_;
  std::map<std::uint64_t, Client> served_;  ///< by slot and word
  Counts gone_;                             ///< of communicators that are no longer served
  std::uint32_t next_slot_ = 0;
  std::uint64_t next_care_ns_ = 0;
  std::uint64_t accepted_ = 0;
  bool closed_ = false;
  std::optional<Error> lost_;
};

}  // namespace penstock::accelerator

// PyTorch's back end with tensors of a GPU, on the stand-in driver: torch_standin RANK RANKS FOLDER
// training|abort. Prints "ok", or what went wrong.
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "backend.hpp"
#include "device.hpp"

namespace penstock::standin {
namespace {

using Values = std::vector<at::BFloat16>;

/// The number at `place` of what a rank contributes to a call. Small, so that sums are exact.
float value(std::int64_t place, int rank, int call) {
  return static_cast<float>((place + 5 * rank + call) % 64);
}

Values values(std::int64_t count, int rank, int call) {
  Values made;
  for (std::int64_t i = 0; i < count; ++i) made.emplace_back(value(i, rank, call));
  return made;
}

void require_equal(float found, float wanted, const char* what, std::int64_t place) {
  if (found == wanted) return;
  std::printf("%s: %g at %ld, and %g is right\n", what, static_cast<double>(found),
              static_cast<long>(place), static_cast<double>(wanted));
  std::exit(1);
}

/// The collectives of a rank, as FSDP makes them: each kind on a stream of its own.
class Rank {
 public:
  Rank(int rank, int ranks, const c10::intrusive_ptr<c10d::Store>& store)
      : rank_(rank), ranks_(ranks) {
    constexpr std::chrono::milliseconds timeout{60'000};
    auto options = c10::make_intrusive<torch::Backend::Options>(timeout);
    options->group_name = "0";
    backend_ = c10::make_intrusive<torch::Backend>(store, rank, ranks, options, true);
  }
  torch::Backend& backend() { return *backend_; }

  /// In place: the rank's own part lies in the result already.
  void gather(std::int64_t each, int call) {
    const auto all = std::make_shared<Numbers>(each * ranks_);
    all->put(rank_ * each, values(each, rank_, call), copying_);
    {
      const c10::StreamGuard on(gathering_);
      at::Tensor output = Numbers::tensor(all, 0, each * ranks_);
      at::Tensor input = Numbers::tensor(all, rank_ * each, each);
      c10d::AllgatherOptions options;
      options.asyncOp = false;
      backend_->_allgather_base(output, input, options)->wait();
    }
    order(gathering_, computing_);
    const Values found = all->get(computing_);
    for (std::int64_t i = 0; i < each * ranks_; ++i)
      require_equal(found[static_cast<std::size_t>(i)],
                    value(i % each, static_cast<int>(i / each), call), "all_gather", i);
  }

  void reduce_scatter(std::int64_t each, int call) {
    const auto in = std::make_shared<Numbers>(each * ranks_), out = std::make_shared<Numbers>(each);
    in->put(0, values(each * ranks_, rank_, call), computing_);
    {
      const c10::StreamGuard on(scattering_);
      at::Tensor output = Numbers::tensor(out, 0, each);
      at::Tensor input = Numbers::tensor(in, 0, each * ranks_);
      c10d::ReduceScatterOptions options;
      options.reduceOp = c10d::ReduceOp::AVG;
      options.asyncOp = false;
      backend_->_reduce_scatter_base(output, input, options)->wait();
    }
    const Values found = out->get(scattering_);
    for (std::int64_t i = 0; i < each; ++i) {
      float sum = 0;
      for (int rank = 0; rank < ranks_; ++rank) sum += value(rank_ * each + i, rank, call);
      const at::BFloat16 average = sum / static_cast<float>(ranks_);
      require_equal(found[static_cast<std::size_t>(i)], average, "reduce_scatter", i);
    }
  }

 private:
  static void order(const c10::Stream& first, const c10::Stream& then) {
    c10::Event done(c10::DeviceType::CUDA);
    done.record(first);
    done.block(then);
  }

  const int rank_, ranks_;
  c10::intrusive_ptr<torch::Backend> backend_;
  const c10::Stream copying_ = new_stream(), gathering_ = new_stream(), computing_ = new_stream(),
                    scattering_ = new_stream();
};

/// Elements of a rank's part of each layer, not all of whole lines. At chunks of 4 KB the longest
/// need more operations than a stream holds.
constexpr std::int64_t layers[] = {700'000, 1'000, 500'033, 64'000};

/// Gathers forward in this thread; gathers and reduces backward in autograd's.
void train(Rank& rank) {
  constexpr int steps = 2;
  int call = 0;
  for (int step = 0; step < steps; ++step) {
    for (const std::int64_t layer : layers) rank.gather(layer, ++call);
    std::thread backward([&] {
      for (std::size_t i = std::size(layers); i-- > 0;) {
        if (i != 0) rank.gather(layers[i], ++call);
        rank.reduce_scatter(layers[i], ++call);
      }
    });
    backward.join();
  }
  rank.backend().shutdown();
}

/// Rank 0 aborts in a call that no other rank makes, and that has more operations than fit.
void abort_while_it_enqueues(Rank& rank, bool is_first, c10d::Store& store) {
  constexpr std::chrono::milliseconds until_it_waits{300};
  if (!is_first) {
    store.wait({"aborted"});
    return;
  }
  std::thread caller([&] {
    try {
      rank.gather(layers[0], 1);
      std::puts("the call has succeeded");
    } catch (const std::exception& error) {
      if (std::strstr(error.what(), "aborted") == nullptr) std::puts(error.what());
    }
  });
  std::this_thread::sleep_for(until_it_waits);
  rank.backend().abort();
  caller.join();
  store.set("aborted", std::vector<std::uint8_t>{1});
}

int run(int rank, int ranks, const std::string& folder, const std::string& what) {
  const auto store = c10::make_intrusive<c10d::FileStore>(folder + "/store", ranks);
  Rank self(rank, ranks, store);
  what == "abort" ? abort_while_it_enqueues(self, rank == 0, *store) : train(self);
  std::puts("ok");
  return 0;
}

}  // namespace
}  // namespace penstock::standin

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  return penstock::standin::run(std::atoi(argv[1]), std::atoi(argv[2]), argv[3], argv[4]);
}

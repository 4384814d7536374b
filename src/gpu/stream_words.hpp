// How streams of a GPU wait for words of the pool and write words for others, in the direct form:
// by stream memory operations, or by launches of a small kernel (word_ops.hpp) if the GPU has no
// such operations, and in graphs.
#pragma once

#include <array>
#include <vector>

#include "coll/direct.hpp"
#include "gpu/movement.hpp"
#include "gpu/word_ops.hpp"

namespace penstock::gpu {

/// For one communicator; one thread at a time.
class StreamWords {
 public:
  /// Host words that the GPU reads or writes too.
  enum Word : std::size_t {
    number,  ///< the last collective begun, by a host or the GPU
    done,    ///< the last one finished by the GPU
    begun,   ///< the last one begun by the GPU, if it numbers them
    stops,   ///< not zero: launches wait for nothing and tell nothing
  };
  /// Where the operations of a call go.
  struct Target {
    Lanes* lanes = nullptr;
    coll::DirectTurn turn;  ///< for launches only its half counts
    bool by_launches = false;
  };

  static Result<std::unique_ptr<StreamWords>> make(coll::Direct& core, const Movement& movement,
                                                   std::shared_ptr<const Device> device);
  ~StreamWords();
  StreamWords(const StreamWords&) = delete;
  StreamWords& operator=(const StreamWords&) = delete;

  std::atomic<std::uint64_t>& operator[](Word word) const { return (*words_)[word]; }
  bool can_launch() const { return epoch_ != 0; }
  /// Set at the first call by launches: the last collective of this kind before it.
  void launch_from(std::uint64_t last) { last_ = last; }

  /// Begins a call, behind all operations that both lanes have been given.
  void begin(const Target& target);
  /// Collects the operation; it goes to the lane with the next one, or at flush().
  Result<void> add(const coll::DirectOp& op);
  Result<void> flush(Lane lane);
  /// The collected operations, of both lanes.
  std::size_t pending() const;
  /// Flushes all; the read lane's last word is `done`.
  Result<void> finish();

  /// The GPU's address of a word.
  std::uint64_t* in_pool(const coll::DirectOp& op) const;
  /// Sets the part that all launches share; `half`: of the call's slots.
  void describe(LaunchWords& launch, std::uint64_t half) const;
  std::uint64_t* done_word() const { return at(done); }

 private:
  StreamWords(coll::Direct& core, const Movement& movement, std::shared_ptr<const Device> device)
      : core_(core), movement_(movement), device_(std::move(device)) {}
  Result<void> open();
  std::uint64_t* at(Word word) const { return reinterpret_cast<std::uint64_t*>(words_->at(word)); }
  Result<void> flush_batch(Lane lane, bool last);
  Result<void> flush_launch(Lane lane, bool last);

  coll::Direct& core_;
  const Movement& movement_;
  std::shared_ptr<const Device> device_;
  std::unique_ptr<PinnedWords> words_;
  cuda::DevicePointer epoch_ = 0;
  std::uint64_t last_ = 0;
  Target target_;
  bool begins_ = false;
  std::array<std::vector<coll::DirectOp>, both_lanes.size()> pending_;
};

}  // namespace penstock::gpu

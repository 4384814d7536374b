// How a host without node number gets one (docs/protocols/renaming.md): a name makes it a
// participant of the registration lock, under which it takes an entry of the node table. It returns
// the name as soon as it has the entry.
//
// Names whose holders died, and doors at which several hosts met, stay shut. A host that finds few
// open doors watches the shut ones for a lease before it passes one, and, once it has the lock,
// opens those at which nothing happened. So a process that passed a door and then was silent for
// that long must stop: it checks the time before it announces itself.
#pragma once

#include <vector>

#include "pool/node_table.hpp"
#include "sync/sync.hpp"

namespace penstock::pool {

class Registration {
 public:
  Registration(const NodeTable& table, const NodeTable::Joiner& joiner,
               const coherence::Memory& memory, std::byte* base,
               const device::Superblock& superblock);

  /// The number of this host's new entry. Errors: no_slots, deadline.
  Result<std::uint32_t> enter();

 private:
  /// A door that stayed shut while it was watched, with no living process behind it.
  struct Abandoned {
    std::uint32_t name = 0;
    std::uint64_t shut_by = 0;
    std::optional<AttachingLine> shown;  ///< the line of the name, unchanged meanwhile
    std::uint64_t since_ns = 0;          ///< time of the last look at it
  };
  Result<void> claim();
  void open_one_door(const std::vector<Abandoned>& abandoned) const;
  std::vector<Abandoned> watch() const;
  void open_doors(const std::vector<Abandoned>& abandoned) const;
  Result<std::uint32_t> take_entry() const;
  std::optional<std::uint32_t> take_unneeded(const std::vector<NodeTable::Entry>& entries) const;
  Result<std::uint32_t> take_under_lock(const std::vector<Abandoned>& abandoned);
  void give_back() const;

  const NodeTable& table_;
  const NodeTable::Joiner& joiner_;
  coherence::Memory memory_;
  std::byte* base_;
  const device::Superblock& superblock_;
  sync::Renaming doors_;
  std::uint32_t name_ = 0;
  std::uint64_t id_ = 0;  ///< holds the name under this id
  std::uint64_t token_ = 0;
  std::shared_ptr<Visit> visit_;
};

}  // namespace penstock::pool

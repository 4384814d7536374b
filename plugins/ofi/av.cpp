#include "av.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include "base/log.hpp"
#include "ep.hpp"
#include "eq.hpp"
#include "lib.hpp"

namespace penstock::ofi {

namespace {

Av& av_of(fid* self) {
  return *static_cast<Av*>(reinterpret_cast<fid_av*>(self));
}

int close_av(fid* self) {
  Av& av = av_of(self);
  if (av.users.load() != 0) return -FI_EBUSY;
  if (av.events != nullptr) av.events->users.fetch_sub(1);
  av.domain->users.fetch_sub(1);
  delete &av;
  return 0;
}

int bind_av(fid* self, fid* other, std::uint64_t flags) {
  if (other == nullptr || other->fclass != FI_CLASS_EQ) return -FI_EINVAL;
  if (flags != 0) return -FI_EBADFLAGS;
  Av& av = av_of(self);
  if (av.events != nullptr) return -FI_EBUSY;
  auto* events = static_cast<Eq*>(reinterpret_cast<fid_eq*>(other));
  if (events->fabric != av.domain->fabric) return -FI_EINVAL;
  av.events = events;
  events->users.fetch_add(1);
  return 0;
}

bool plausible(const transport::Address& address) {
  return address.pool_id != 0 && address.slot < transport::max_slots;
}

fi_addr_t insert_one(Av& av, const transport::Address& address) {
  fi_addr_t number = av.entries.size();
  if (!av.free_numbers.empty()) {
    std::pop_heap(av.free_numbers.begin(), av.free_numbers.end(), std::greater<>());
    number = av.free_numbers.back();
    av.free_numbers.pop_back();
  } else {
    av.entries.emplace_back();
  }
  av.entries[number] = {address, true};
  if (av.of_peer.size() <= address.slot) av.of_peer.resize(address.slot + 1, FI_ADDR_NOTAVAIL);
  // An address keeps its first number; a newer endpoint in the same slot replaces the entry.
  const transport::Address* known = av.find(av.of_peer[address.slot]);
  if (known == nullptr || known->generation != address.generation) {
    av.of_peer[address.slot] = number;
  }
  return number;
}

/// 0, or the error code for invalid arguments of an insertion.
int refuse_insertion(const Av& av, const void* addresses, std::size_t count, std::uint64_t flags,
                     const void* context) {
  constexpr std::uint64_t known = FI_MORE | FI_SYNC_ERR;
  if ((flags & ~known) != 0) return -FI_EBADFLAGS;
  if (addresses == nullptr && count != 0) return -FI_EINVAL;
  if (av.asynchronous && av.events == nullptr) return -FI_ENOEQ;
  if ((flags & FI_SYNC_ERR) == 0) return 0;
  if (av.asynchronous) return -FI_EBADFLAGS;
  return context == nullptr ? -FI_EINVAL : 0;
}

int insert(fid_av* self, const void* addresses, std::size_t count, fi_addr_t* numbers,
           std::uint64_t flags, void* context) {
  Av& av = *static_cast<Av*>(self);
  const Guard guard(*av.domain);
  if (const int no = refuse_insertion(av, addresses, count, flags, context)) return no;
  return guarded([&]() -> int {
    int inserted = 0;
    for (std::size_t i = 0; i < count; ++i) {
      transport::Address address;
      std::memcpy(&address, static_cast<const std::byte*>(addresses) + i * sizeof(address),
                  sizeof(address));
      const bool good = plausible(address);
      const fi_addr_t number = good ? insert_one(av, address) : FI_ADDR_NOTAVAIL;
      inserted += good ? 1 : 0;
      if (numbers != nullptr) numbers[i] = number;
      if ((flags & FI_SYNC_ERR) != 0) static_cast<int*>(context)[i] = good ? 0 : FI_EINVAL;
      if (!good && av.asynchronous) av.events->push_error(&av.fid, context, i, FI_EINVAL);
    }
    if (!av.asynchronous) return inserted;
    av.events->push_av_complete(&av.fid, context, static_cast<std::uint64_t>(inserted));
    return 0;
  });
}

int no_insertsvc(fid_av*, const char*, const char*, fi_addr_t*, std::uint64_t, void*) {
  return -FI_ENOSYS;
}
int no_insertsym(fid_av*, const char*, std::size_t, const char*, std::size_t, fi_addr_t*,
                 std::uint64_t, void*) {
  return -FI_ENOSYS;
}

/// Finds another number of an address whose first number is being removed: users may insert an
/// address more than once.
fi_addr_t alias_of(const Av& av, fi_addr_t going) {
  for (fi_addr_t number = 0; number < av.entries.size(); ++number) {
    const transport::Address* other = number != going ? av.find(number) : nullptr;
    if (other != nullptr && other->slot == av.entries[going].address.slot &&
        other->generation == av.entries[going].address.generation) {
      return number;
    }
  }
  return FI_ADDR_NOTAVAIL;
}

int remove(fid_av* self, fi_addr_t* numbers, std::size_t count, std::uint64_t flags) {
  if (flags != 0) return -FI_EBADFLAGS;
  Av& av = *static_cast<Av*>(self);
  const Guard guard(*av.domain);
  return guarded([&]() -> int {
    for (std::size_t i = 0; i < count; ++i) {
      const transport::Address* address = av.find(numbers[i]);
      if (address == nullptr) return -FI_EINVAL;
      av.free_numbers.push_back(numbers[i]);
      std::push_heap(av.free_numbers.begin(), av.free_numbers.end(), std::greater<>());
      fi_addr_t& named = av.of_peer[address->slot];
      if (named == numbers[i]) named = alias_of(av, numbers[i]);
      for (Ep* ep : av.endpoints) ep->forget(numbers[i]);
      av.entries[numbers[i]].used = false;
    }
    return 0;
  });
}

int lookup(fid_av* self, fi_addr_t number, void* address, std::size_t* length) {
  Av& av = *static_cast<Av*>(self);
  Guard guard(*av.domain);
  const transport::Address* found = av.find(number);
  if (found == nullptr) return -FI_EINVAL;
  if (address != nullptr) std::memcpy(address, found, std::min(*length, sizeof(*found)));
  *length = sizeof(*found);
  return 0;
}

const char* straddr(fid_av*, const void* bytes, char* text, std::size_t* length) {
  transport::Address address;
  std::memcpy(&address, bytes, sizeof(address));
  const std::string written = fmt::format("penstock://{:016x}/{:016x}/{}.{}", address.pool_id,
                                          address.job, address.slot, address.generation);
  if (text != nullptr && *length > 0) {
    const std::size_t part = std::min(written.size(), *length - 1);
    std::memcpy(text, written.data(), part);
    text[part] = '\0';
  }
  *length = written.size() + 1;
  return text;
}

fi_ops av_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_av,
    .bind = bind_av,
    .control = no_control,
    .ops_open = no_ops_open,
};

fi_ops_av av_ops = {
    .size = sizeof(fi_ops_av),
    .insert = insert,
    .insertsvc = no_insertsvc,
    .insertsym = no_insertsym,
    .remove = remove,
    .lookup = lookup,
    .straddr = straddr,
};

}  // namespace

int open_av(fid_domain* self, fi_av_attr* attr, fid_av** result, void* context) {
  constexpr std::uint64_t known = FI_EVENT | FI_SYMMETRIC;
  constexpr std::size_t reserved_at_most = transport::max_endpoints;
  return guarded([&]() -> int {
    if (attr == nullptr) return -FI_EINVAL;
    if (attr->name != nullptr || (attr->flags & FI_READ) != 0) {
      base::log(base::Level::info, "address vectors are not shared between processes");
      return -FI_ENOSYS;
    }
    if ((attr->flags & ~known) != 0) return -FI_EBADFLAGS;
    if (attr->rx_ctx_bits != 0) return -FI_EINVAL;  // of scalable endpoints
    auto* domain = static_cast<Domain*>(self);
    auto av = std::make_unique<Av>();
    av->entries.reserve(std::min(attr->count, reserved_at_most));
    av->domain = domain;
    domain->users.fetch_add(1);
    av->fid = {FI_CLASS_AV, context, &av_fid_ops};
    av->ops = &av_ops;
    av->asynchronous = (attr->flags & FI_EVENT) != 0;
    if (attr->type == FI_AV_UNSPEC) attr->type = FI_AV_TABLE;
    *result = av.release();
    return 0;
  });
}

}  // namespace penstock::ofi

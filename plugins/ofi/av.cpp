#include "av.hpp"

#include <fmt/core.h>

#include <cstring>

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

int bind_av(fid* self, fid* other, std::uint64_t) {
  if (other->fclass != FI_CLASS_EQ) return -FI_EINVAL;
  Av& av = av_of(self);
  if (av.events != nullptr) return -FI_EBUSY;
  av.events = static_cast<Eq*>(reinterpret_cast<fid_eq*>(other));
  av.events->users.fetch_add(1);
  return 0;
}

bool plausible(const transport::Address& address) {
  return address.pool_id != 0 && address.slot < transport::max_endpoints;
}

fi_addr_t insert_one(Av& av, const transport::Address& address) {
  fi_addr_t number = av.entries.size();
  if (!av.free_numbers.empty()) {
    number = av.free_numbers.back();
    av.free_numbers.pop_back();
  } else {
    av.entries.emplace_back();
  }
  av.entries[number] = {address, true};
  if (av.of_peer.size() <= address.slot) av.of_peer.resize(address.slot + 1, FI_ADDR_NOTAVAIL);
  // The first number of an address stands for it; a newer endpoint in the slot replaces it.
  const transport::Address* known = av.find(av.of_peer[address.slot]);
  if (known == nullptr || known->generation != address.generation) {
    av.of_peer[address.slot] = number;
  }
  return number;
}

int insert(fid_av* self, const void* addresses, std::size_t count, fi_addr_t* numbers,
           std::uint64_t flags, void* context) {
  Av& av = *static_cast<Av*>(self);
  if ((flags & FI_SYNC_ERR) != 0 && context == nullptr) return -FI_EINVAL;
  Guard guard(*av.domain);
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
      if (!good && av.events != nullptr) av.events->push_error(&av.fid, context, i, FI_EINVAL);
    }
    if (av.events == nullptr) return inserted;
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

int remove(fid_av* self, fi_addr_t* numbers, std::size_t count, std::uint64_t) {
  Av& av = *static_cast<Av*>(self);
  Guard guard(*av.domain);
  return guarded([&]() -> int {
    for (std::size_t i = 0; i < count; ++i) {
      const transport::Address* address = av.find(numbers[i]);
      if (address == nullptr) return -FI_EINVAL;
      if (av.of_peer[address->slot] == numbers[i]) av.of_peer[address->slot] = FI_ADDR_NOTAVAIL;
      for (Ep* ep : av.endpoints) ep->forget(numbers[i]);
      av.free_numbers.push_back(numbers[i]);
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
  std::memcpy(address, found, std::min(*length, sizeof(*found)));
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
  return guarded([&]() -> int {
    if (attr == nullptr) return -FI_EINVAL;
    if (attr->name != nullptr) return -FI_ENOSYS;  // address vectors shared between processes
    if (attr->rx_ctx_bits != 0) return -FI_EINVAL;
    auto* av = new Av;
    av->domain = static_cast<Domain*>(self);
    av->domain->users.fetch_add(1);
    av->fid = {FI_CLASS_AV, context, &av_fid_ops};
    av->ops = &av_ops;
    av->entries.reserve(attr->count);
    if (attr->type == FI_AV_UNSPEC) attr->type = FI_AV_TABLE;
    *result = av;
    return 0;
  });
}

}  // namespace penstock::ofi

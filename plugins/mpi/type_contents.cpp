#include "type_contents.hpp"

#include "base/format.hpp"
#include "flatten.hpp"
#include "pmpi.hpp"

namespace penstock::mpi {

namespace {

template <class T>
T next(const std::vector<T>& values, std::size_t* at) {
  return *at < values.size() ? values[(*at)++] : T{0};
}

bool has_integer_addresses(int combiner) {
  const Constants& c = constants();
  return combiner != absent &&
         (combiner == c.combiner_hvector_integer || combiner == c.combiner_hindexed_integer ||
          combiner == c.combiner_struct_integer);
}

}  // namespace

Result<Envelope> envelope_of(Handle type) {
  Envelope found;
  if (type == constants().datatype_null) {
    return fail(ErrorCode::invalid_argument, "the datatype is MPI_DATATYPE_NULL");
  }
  int status = 0;
  if (pmpi().Type_get_envelope_c != nullptr) {
    status = pmpi().Type_get_envelope_c(type, &found.integers, &found.addresses,
                                        &found.large_counts, &found.types, &found.combiner);
  } else {
    int integers = 0;
    int addresses = 0;
    int types = 0;
    status = pmpi().Type_get_envelope(type, &integers, &addresses, &types, &found.combiner);
    found.integers = integers;
    found.addresses = addresses;
    found.types = types;
  }
  if (status != constants().success) {
    return fail(ErrorCode::invalid_argument,
                "the MPI does not tell what datatype {:#x} is (error {})", type, status);
  }
  return found;
}

Result<TypeContents> TypeContents::of(Handle type, const Envelope& envelope) {
  TypeContents made;
  made.integers_.resize(static_cast<std::size_t>(envelope.integers));
  made.addresses_.resize(static_cast<std::size_t>(envelope.addresses));
  made.large_.resize(static_cast<std::size_t>(envelope.large_counts));
  made.is_large_ = envelope.large_counts > 0;
  made.integer_addresses_ = has_integer_addresses(envelope.combiner);
  const auto types = static_cast<std::size_t>(envelope.types);
  std::vector<Handle> raw(types);  // roomy enough for any width
  int status = 0;
  if (pmpi().Type_get_contents_c != nullptr) {
    status = pmpi().Type_get_contents_c(
        type, envelope.integers, envelope.addresses, envelope.large_counts, envelope.types,
        made.integers_.data(), made.addresses_.data(), made.large_.data(), raw.data());
  } else {
    status = pmpi().Type_get_contents(type, static_cast<int>(envelope.integers),
                                      static_cast<int>(envelope.addresses),
                                      static_cast<int>(envelope.types), made.integers_.data(),
                                      made.addresses_.data(), raw.data());
  }
  if (status != constants().success) {
    return fail(ErrorCode::invalid_argument,
                "the MPI does not tell how datatype {:#x} was made (error {})", type, status);
  }
  for (std::size_t n = 0; n < types; ++n) made.types_.push_back(load_at(raw.data(), n));
  return made;
}

TypeContents::~TypeContents() {
  for (const Handle type : types_) {
    const auto predefined = is_predefined(type);
    if (!predefined || *predefined) continue;
    Slot freed(type);
    pmpi().Type_free(freed);
  }
}

int TypeContents::number() {
  return next(integers_, &next_integer_);
}

Count TypeContents::count() {
  if (is_large_) return next(large_, &next_large_);
  return next(integers_, &next_integer_);
}

Count TypeContents::address() {
  if (is_large_) return next(large_, &next_large_);
  if (integer_addresses_) return next(integers_, &next_integer_);
  return next(addresses_, &next_address_);
}

std::vector<Count> TypeContents::counts(Count n) {
  std::vector<Count> values(static_cast<std::size_t>(n));
  for (Count& value : values) value = count();
  return values;
}

std::vector<Count> TypeContents::addresses(Count n) {
  std::vector<Count> values(static_cast<std::size_t>(n));
  for (Count& value : values) value = address();
  return values;
}

Handle TypeContents::type(std::size_t n) const {
  return n < types_.size() ? types_[n] : constants().datatype_null;
}

}  // namespace penstock::mpi

#include "atomics.hpp"

#include <complex>
#include <cstring>
#include <type_traits>

namespace penstock::ofi {

namespace {

template <class T>
constexpr bool is_complex = false;
template <class T>
constexpr bool is_complex<std::complex<T>> = true;

/// Calls `with` with a value of the C++ type; false if the type is unknown.
template <class With>
bool with_type(int type, With with) {
  switch (type) {
    case FI_INT8:
      return with(std::int8_t{}), true;
    case FI_UINT8:
      return with(std::uint8_t{}), true;
    case FI_INT16:
      return with(std::int16_t{}), true;
    case FI_UINT16:
      return with(std::uint16_t{}), true;
    case FI_INT32:
      return with(std::int32_t{}), true;
    case FI_UINT32:
      return with(std::uint32_t{}), true;
    case FI_INT64:
      return with(std::int64_t{}), true;
    case FI_UINT64:
      return with(std::uint64_t{}), true;
    case FI_FLOAT:
      return with(float{}), true;
    case FI_DOUBLE:
      return with(double{}), true;
    case FI_FLOAT_COMPLEX:
      return with(std::complex<float>{}), true;
    case FI_DOUBLE_COMPLEX:
      return with(std::complex<double>{}), true;
    case FI_LONG_DOUBLE:
      return with(static_cast<long double>(0)), true;
    case FI_LONG_DOUBLE_COMPLEX:
      return with(std::complex<long double>{}), true;
    default:
      return false;
  }
}

enum class Needs { equality, order, bits, arithmetic };

/// The requirement of an operation on its type.
Needs needs_of(int op) {
  switch (op) {
    case FI_MIN:
    case FI_MAX:
    case FI_CSWAP_LE:
    case FI_CSWAP_LT:
    case FI_CSWAP_GE:
    case FI_CSWAP_GT:
      return Needs::order;
    case FI_BOR:
    case FI_BAND:
    case FI_BXOR:
    case FI_MSWAP:
      return Needs::bits;
    case FI_SUM:
    case FI_PROD:
      return Needs::arithmetic;
    default:
      return Needs::equality;
  }
}

bool form_allows(AtomicForm form, int op) {
  const bool compares = op >= FI_CSWAP && op <= FI_MSWAP;
  if (op < FI_MIN || op > FI_MSWAP) return false;
  if (form == AtomicForm::compare) return compares;
  return !compares && (form == AtomicForm::fetch || op != FI_ATOMIC_READ);
}

/// Sums and products of integers, which wrap around.
template <class T>
T arithmetic(int op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::make_unsigned_t<std::common_type_t<T, int>>;
    const auto x = static_cast<Wide>(a), y = static_cast<Wide>(b);
    return static_cast<T>(op == FI_SUM ? x + y : x * y);
  } else {
    return op == FI_SUM ? a + b : a * b;
  }
}

template <class T>
T logical(int op, T a, T b) {
  const bool x = a != T{}, y = b != T{};
  const bool result = op == FI_LOR ? x || y : op == FI_LAND ? x && y : x != y;
  return result ? T{1} : T{0};
}

template <class T>
T bitwise(int op, T old, T operand, T mask) {
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case FI_BOR:
        return static_cast<T>(old | operand);
      case FI_BAND:
        return static_cast<T>(old & operand);
      case FI_BXOR:
        return static_cast<T>(old ^ operand);
      default:
        return static_cast<T>((operand & mask) | (old & ~mask));
    }
  } else {
    return old;
  }
}

template <class T>
T ordered(int op, T old, T operand, T compare) {
  if constexpr (!is_complex<T>) {
    switch (op) {
      case FI_MIN:
        return operand < old ? operand : old;
      case FI_MAX:
        return operand > old ? operand : old;
      case FI_CSWAP_LE:
        return compare <= old ? operand : old;
      case FI_CSWAP_LT:
        return compare < old ? operand : old;
      case FI_CSWAP_GE:
        return compare >= old ? operand : old;
      default:
        return compare > old ? operand : old;
    }
  } else {
    return old;
  }
}

template <class T>
T combined(int op, T old, T operand, T compare) {
  switch (op) {
    case FI_SUM:
    case FI_PROD:
      return arithmetic(op, old, operand);
    case FI_LOR:
    case FI_LAND:
    case FI_LXOR:
      return logical(op, old, operand);
    case FI_BOR:
    case FI_BAND:
    case FI_BXOR:
    case FI_MSWAP:
      return bitwise(op, old, operand, compare);
    case FI_ATOMIC_READ:
      return old;
    case FI_ATOMIC_WRITE:
      return operand;
    case FI_CSWAP:
      return compare == old ? operand : old;
    case FI_CSWAP_NE:
      return compare != old ? operand : old;
    default:
      return ordered(op, old, operand, compare);
  }
}

template <class T>
T element(const void* from, std::size_t index) {
  T value{};
  if (from != nullptr)
    std::memcpy(&value, static_cast<const std::byte*>(from) + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void set_element(void* to, std::size_t index, T value) {
  std::memcpy(static_cast<std::byte*>(to) + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

std::size_t atomic_size(AtomicForm form, int op, int type) {
  if (!form_allows(form, op)) return 0;
  std::size_t size = 0;
  with_type(type, [&](auto value) {
    using T = decltype(value);
    const Needs needs = needs_of(op);
    if (needs == Needs::bits && !std::is_integral_v<T>) return;
    if (needs == Needs::order && is_complex<T>) return;
    size = sizeof(T);
  });
  return size;
}

bool atomic_takes_operand(int op) {
  return op != FI_ATOMIC_READ;
}

void atomic_apply(int op, int type, std::size_t count, void* target, const void* operand,
                  const void* compare, void* result) {
  with_type(type, [&](auto value) {
    using T = decltype(value);
    for (std::size_t i = 0; i < count; ++i) {
      const T old = element<T>(target, i);
      if (result != nullptr) set_element(result, i, old);
      if (op == FI_ATOMIC_READ) continue;
      set_element(target, i, combined(op, old, element<T>(operand, i), element<T>(compare, i)));
    }
  });
}

}  // namespace penstock::ofi

// The calls that free operations and datatypes. If a call in progress uses one, it is freed later.
#include "export.hpp"
#include "held_handles.hpp"

namespace {

using namespace penstock::mpi;

/// Defers the free if a call in progress uses the handle. Then sets the program's handle to null
/// and returns true.
bool put_off(Held kind, void* handle, Handle null) {
  if (!held_handles().put_off(kind, load(handle))) return false;
  store(handle, null);
  return true;
}

}  // namespace

PENSTOCK_MPI(Op_free, (void* op), (op)) {
  if (usable(caller) && put_off(Held::op, op, constants().op_null)) return constants().success;
  return PENSTOCK_PASS(Op_free, (op));
}

PENSTOCK_MPI(Type_free, (void* type), (type)) {
  if (usable(caller) && put_off(Held::type, type, constants().datatype_null))
    return constants().success;
  return PENSTOCK_PASS(Type_free, (type));
}

#include "coll/placement.hpp"

namespace penstock::coll {

Placement placement_of(Collective collective, Variant variant) {
  if (variant == Variant::naive) return Placement::sequential;
  switch (collective) {
    case Collective::broadcast:
    case Collective::gather:
    case Collective::scatter:
    case Collective::reduce:
      return Placement::wide;
    default:
      return Placement::own;
  }
}

}  // namespace penstock::coll

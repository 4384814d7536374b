// Of a build without the provider, for doctor_provider.cpp.
#include "doctor.hpp"

namespace penstock::tools {

void check_offer(Findings&, const std::string&) {}  // check_provider says that there is none

}  // namespace penstock::tools

// What a benchmark of the provider sets before it uses libfabric.
#pragma once

#include <string>

namespace penstock::bench {

/// libfabric looks for the provider beside this program, as it was built, if not told otherwise.
void find_provider(const char* program);
/// The provider attaches to this pool, as this node.
void use_pool(const std::string& spec, const char* job, unsigned node);

}  // namespace penstock::bench

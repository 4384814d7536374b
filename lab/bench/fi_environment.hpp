// Sets environment variables before a benchmark of the provider uses libfabric.
#pragma once

#include <string>

namespace penstock::bench {

/// Makes libfabric load the provider that was built beside this program, unless FI_PROVIDER_PATH is
/// set.
void find_provider(const char* program);
/// Makes the provider attach to this pool, as this node.
void use_pool(const std::string& spec, const char* job, unsigned node);

}  // namespace penstock::bench

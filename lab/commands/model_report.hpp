// The output of `penstock model collectives`: tables for people, and the same as JSON.
#pragma once

#include <vector>

#include "json.hpp"
#include "model/comparison.hpp"
#include "model/growth.hpp"

namespace penstock::tools {

/// The results of the models.
struct ModelResults {
  model::PlatformSet platform;
  std::vector<model::Growth> growth;
  std::vector<model::Comparison> calls;
};

void print_platform(const model::PlatformSet& set);
void print_results(const ModelResults& results);
Json facts_of(const model::PlatformSet& set);
Json facts_of(const ModelResults& results);

}  // namespace penstock::tools

#include "facts.hpp"

#include <algorithm>

#include "command.hpp"
#include "pool/attaching.hpp"
#include "pool/host_identity.hpp"

namespace penstock::tools {
namespace {

bool is_stopped(const pool::ProcessRecord& record) {
  const auto host = pool::this_host();
  const auto self = pool::this_process();
  if (!record.alive || !host || !self) return false;
  if (record.boot_id != pool::format_uuid(host->boot_id)) return false;
  if (record.scope != self->scope) return false;
  const auto seen = pool::read_proc_stat(static_cast<std::uint64_t>(record.pid));
  return seen && seen->start_time == record.start_time &&
         (seen->state == 'T' || seen->state == 't');
}

}  // namespace

const char* state_of(const pool::ProcessRecord& record) {
  if (!record.attached) return "left";
  if (!record.alive) return "dead";
  return is_stopped(record) ? "stopped" : "alive";
}

std::uint32_t node_of(const pool::ProcessRecord& record) {
  return record.emulated_node.value_or(record.node);
}

Json pool_facts(const pool::Info& info) {
  return {{"spec", info.spec},
          {"id", fmt::format("{:016x}", info.id)},
          {"bytes", info.bytes},
          {"layout", device::layout_version},
          {"mode", coherence::mode_name(info.mode)},
          {"created", wall_text(info.created_wall_ns)},
          {"owner", device::user_name(info.owner.uid)},
          {"group", device::group_name(info.owner.gid)},
          {"permissions", fmt::format("{:04o}", info.owner.permissions)},
          {"max_ranks", info.max_ranks()},
          {"max_processes", info.max_processes},
          {"max_nodes", info.max_nodes}};
}

std::vector<std::uint64_t> bytes_by_part(const arena::Arena& arena) {
  const device::Striping& striping = arena.pool().info().striping;
  std::vector<std::uint64_t> bytes(striping.parts);
  for (const arena::Object& object : arena.list()) {
    const std::uint64_t end = object.offset + object.bytes;
    for (std::uint64_t at = object.offset; at < end;) {
      const device::Stripe stripe = striping.stripe_of(at);
      bytes[stripe.part] += std::min(end, stripe.end) - at;
      at = stripe.end;
    }
  }
  return bytes;
}

Json quarantine_facts(const arena::Quarantine& quarantine) {
  Json nodes = Json::array();
  for (const auto& node : quarantine.waits_for) {
    nodes.push_back(
        {{"node", node.node}, {"host", node.host}, {"alive", node.alive}, {"bytes", node.bytes}});
  }
  return nodes;
}

Json process_facts(const std::string& spec, const pool::ProcessRecord& record) {
  Json facts = {
      {"pool", spec},      {"slot", record.slot}, {"node", node_of(record)},  {"host", record.host},
      {"pid", record.pid}, {"rank", record.rank}, {"state", state_of(record)}};
  if (record.emulated_node) facts["emulated_node"] = *record.emulated_node;
  facts.update({{"job", record.job},
                {"program", record.program},
                {"attached", record.attached},
                {"alive", record.alive},
                {"messages_sent", record.messages_sent},
                {"bytes_sent", record.bytes_sent},
                {"messages_received", record.messages_received},
                {"bytes_received", record.bytes_received},
                {"since", wall_text(record.attached_wall_ns)},
                {"activity", record.activity}});
  return facts;
}

Json finding_facts(const Findings& findings) {
  Json facts = Json::array();
  for (const Finding& finding : findings.all()) {
    facts.push_back({{"verdict", verdict_name(finding.verdict)},
                     {"what", finding.what},
                     {"fix", finding.fix.empty() ? Json() : Json(finding.fix)}});
  }
  return facts;
}

}  // namespace penstock::tools

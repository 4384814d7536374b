/* The all-gather through the pool, in three phases, by the five calls of cxl_memory.h. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"
#include "penstock/cxl_memory.h"

enum { line = 64 };

static cxl_memory_t memory;
static uint64_t blocks,
    flags; /* every rank's block; a line for each rank: the runs it has written */
static uint64_t runs;

static void must(const process_t* process, const char* what, penstock_status_t status) {
  if (status != PENSTOCK_OK) give_up(process, what, penstock_last_error());
}

void open_pool(process_t* process, const char* job_name) {
  const job_t* job = process->job;
  const uint32_t ranks = (uint32_t)ranks_of(job);
  char node[16];
  snprintf(node, sizeof node, "%d", process->rank / job->per_node);
  setenv("PENSTOCK_NODE", node, 1); /* as if each node were a host */
  must(process, "cxlinit", cxlinit(NULL, job_name, (uint32_t)process->rank, ranks, &memory));
  must(process, "cxlalloc", cxlalloc(&memory, "blocks", ranks * job->bytes, &blocks));
  must(process, "cxlalloc", cxlalloc(&memory, "flags", ranks * line, &flags));
}

void close_pool(process_t* process) {
  must(process, "cxlfinal", cxlfinal(&memory));
}

static void write_and_tell(process_t* process, const char* from, int first, int ranks) {
  const size_t bytes = process->job->bytes;
  must(process, "cxlwrite",
       cxlwrite(&memory, blocks + (uint64_t)first * bytes, from, (uint64_t)ranks * bytes));
  must(process, "cxlwrite",
       cxlwrite(&memory, flags + (uint64_t)process->rank * line, &runs, sizeof runs));
  process->counts->between_nodes_out += (uint64_t)ranks * bytes;
  ++process->counts->messages;
}

static void await(process_t* process, int rank) {
  uint64_t told = 0;
  for (unsigned looks = 0; told < runs; pause_between_looks(process, looks++))
    must(process, "cxlread", cxlread(&memory, &told, flags + (uint64_t)rank * line, sizeof told));
}

/* Reads `bytes` from byte `begin` of a node's data. */
static void read_of(process_t* process, char* to, int node, size_t begin, size_t bytes) {
  const size_t at = (size_t)node * (size_t)process->job->per_node * process->job->bytes + begin;
  must(process, "cxlread", cxlread(&memory, to + at, blocks + at, bytes));
  process->counts->between_nodes_in += bytes;
}

/* The published form: the leader writes its node's data, and reads that of all other nodes. */
static void leader_alone(process_t* process, int node) {
  const job_t* job = process->job;
  const size_t of_node = (size_t)job->per_node * job->bytes;
  meet_node(process);
  if (process->rank % job->per_node != 0) return;
  write_and_tell(process, process->node_memory + (size_t)node * of_node, node * job->per_node,
                 job->per_node);
  for (int k = 1; k < job->nodes; ++k) {
    const int other = (node - k + job->nodes) % job->nodes;
    await(process, other * job->per_node);
    read_of(process, process->node_memory, other, 0, of_node);
  }
}

/* Each rank writes its own block, and reads a share of each other node's data. */
static void each_its_share(process_t* process, int node) {
  const job_t* job = process->job;
  const size_t of_node = (size_t)job->per_node * job->bytes;
  const size_t lines = (of_node + line - 1) / line, local = (size_t)(process->rank % job->per_node);
  size_t begin = lines * local / (size_t)job->per_node * line;
  size_t end = lines * (local + 1) / (size_t)job->per_node * line;
  if (end > of_node) end = of_node;
  write_and_tell(process, process->own, process->rank, 1);
  for (int k = 1; k < job->nodes && begin < end; ++k) {
    const int other = (node - k + job->nodes) % job->nodes;
    const int first = other * job->per_node;
    for (size_t rank = begin / job->bytes; rank <= (end - 1) / job->bytes; ++rank)
      await(process, first + (int)rank);
    read_of(process, process->node_memory, other, begin, end - begin);
  }
}

void through_pool(process_t* process, int shares) {
  const job_t* job = process->job;
  const int node = process->rank / job->per_node;
  ++runs;
  memcpy(process->node_memory + (size_t)process->rank * job->bytes, process->own, job->bytes);
  shares ? each_its_share(process, node) : leader_alone(process, node);
  meet_node(process);
  memcpy(process->all, process->node_memory, (size_t)ranks_of(job) * job->bytes);
  meet_node(process);
}

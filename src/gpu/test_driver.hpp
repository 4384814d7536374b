// The driver that tests use.
#pragma once

namespace penstock::gpu {

/// Opens NVIDIA's driver if PENSTOCK_SIM_CUDA names it, else the stand-in. Returns false if there
/// is none.
bool open_test_driver();
/// Whether NVIDIA's driver was asked for.
bool on_a_gpu();

/// Operations that the stand-in was given so far: launches of kernels whose names begin with
/// `begin`, copies between addresses of either kind, and all operations of streams.
unsigned launches_of(const char* begin);
unsigned copies();
unsigned stream_operations();

}  // namespace penstock::gpu

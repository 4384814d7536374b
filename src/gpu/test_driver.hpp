// The driver that tests use.
#pragma once

namespace penstock::gpu {

/// Opens NVIDIA's driver if PENSTOCK_SIM_CUDA names it, else the stand-in. Returns false if there
/// is none.
bool open_test_driver();
/// Whether NVIDIA's driver was asked for.
bool on_a_gpu();

}  // namespace penstock::gpu

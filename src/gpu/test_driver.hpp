// The driver that tests go by.
#pragma once

namespace penstock::gpu {

/// NVIDIA's where PENSTOCK_TEST_CUDA names it, else the stand-in. False: there is none.
bool open_test_driver();
/// Whether NVIDIA's driver was asked for.
bool on_a_gpu();

}  // namespace penstock::gpu

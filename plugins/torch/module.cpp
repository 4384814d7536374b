// The Python module: makes back ends for torch.distributed.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.hpp"

namespace {

namespace py = pybind11;
using penstock::torch::Backend;
using Options = Backend::Options;

c10::intrusive_ptr<Backend> make(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                 std::chrono::milliseconds timeout, const std::string& name,
                                 bool is_first) {
  auto options = c10::make_intrusive<Backend::Options>(timeout);
  options->group_name = name;
  return c10::make_intrusive<Backend>(store, rank, size, std::move(options), is_first);
}

}  // namespace

PYBIND11_MODULE(PENSTOCK_TORCH_MODULE, module) {
  py::module_::import("torch.distributed");  // loads the base classes of our types
  py::class_<Backend, c10::intrusive_ptr<Backend>, c10d::Backend> backend(module, "Backend");
  // PyTorch's split_group copies the options.
  py::class_<Options, c10::intrusive_ptr<Options>, c10d::Backend::Options>(backend, "Options")
      .def(py::init<std::chrono::milliseconds>(), py::arg("timeout") = kBackendDefaultTimeout)
      .def_readwrite("check", &Options::check, "Compare the calls of all ranks.")
      .def("__copy__", [](const Options& self) { return c10::make_intrusive<Options>(self); })
      .def("__deepcopy__",
           [](const Options& self, const py::dict&) { return c10::make_intrusive<Options>(self); });
  backend.def_property_readonly("options", &Backend::options)
      .def_property_readonly("communication_seconds", &Backend::communication_seconds,
                             "What this rank has spent in collectives, waits for others included.")
      .def("get_error", &Backend::getError)
      .def(
          "perform_nocolor_split", [](Backend&, const py::object&) {},
          "Of ranks that are in no part of a split: nothing has to be done.");
  module.def("make", &make, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
             py::arg("name"), py::arg("is_first"), py::call_guard<py::gil_scoped_release>());
  module.def("leave", &Backend::leave_all, py::call_guard<py::gil_scoped_release>(),
             "For a process that ends: ends its groups, and removes the temporary pool that it has "
             "made.");
  module.attr("version") = penstock_version();
}

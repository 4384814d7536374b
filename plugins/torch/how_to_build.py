"""Prints the build settings for this Python's torch, separated by semicolons: the module's name and suffix, the folder
of the libraries, the C++ ABI, the folders of headers."""

import os
import sysconfig

import torch
from torch.utils.cpp_extension import include_paths

version = "_".join(torch.__version__.split("+")[0].split(".")[:2])
folders = [*include_paths(), sysconfig.get_paths()["include"]]
print(";".join([f"_c10d_{version}", sysconfig.get_config_var("EXT_SUFFIX"),
                os.path.join(os.path.dirname(torch.__file__), "lib"),
                str(int(torch._C._GLIBCXX_USE_CXX11_ABI)), *folders]))

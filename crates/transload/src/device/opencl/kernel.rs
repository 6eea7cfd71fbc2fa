//! Kernels: programs that were built, and the functions of them that a stream calls.

use std::ffi::CString;
use std::sync::Arc;

use opencl3::error_codes::{CL_INVALID_KERNEL, CL_INVALID_KERNEL_NAME, CL_INVALID_PROGRAM};
use opencl3::kernel::{CL_KERNEL_NUM_ARGS, create_kernel, get_kernel_info};
use opencl3::program::{
    CL_PROGRAM_BUILD_LOG, CL_PROGRAM_KERNEL_NAMES, build_program, create_program_with_source,
    get_program_build_info, get_program_info,
};

use super::codes;
use super::device::Shared;
use super::handle::{Function, Handle, Program};
use crate::device::{Backend, Code, DeviceError, Kernel, KernelSource, OPENCL_AND_CUDA_HEADER};

/// How code names the header.
const INCLUDE: &str = "#include \"transload_device.h\"";

/// How many parameters `TRANSLOAD_BATCH` has, and `TRANSLOAD_QUEUES`.
const BATCH_PARAMETERS: u32 = 8;
const QUEUES_PARAMETERS: u32 = 3;

/// What a kernel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Batches,
    Queues,
}

/// A program that was built for a device, and the name of the function in it that is meant.
#[derive(Debug)]
pub(super) struct Built {
    program: Handle<Program>,
    entry: CString,
    r#use: Use,
    device: Arc<Shared>,
}

/// Builds a kernel.
pub(super) fn build(device: &Arc<Shared>, source: &KernelSource) -> Result<Kernel, DeviceError> {
    let Code::OpenClC(text) = &source.code else {
        return Err(DeviceError::OtherLanguage {
            backend: Backend::OpenCl,
            language: source.code.language(),
            takes: "OpenCL C, in a file whose name ends in .cl",
        });
    };
    let no_such = |reason: String| DeviceError::NoSuchKernel { entry: source.entry.clone(), reason };
    let entry =
        CString::new(source.entry.as_str()).map_err(|_| no_such("no name has a zero byte".to_owned()))?;
    let program = create_program_with_source(device.context().raw(), &[&with_header(text)])
        .map_err(|code| codes::failed("clCreateProgramWithSource", code))?;
    // SAFETY: the call gave us a reference to it.
    let program = unsafe { Handle::<Program>::own(program) }
        .ok_or_else(|| codes::failed("clCreateProgramWithSource", CL_INVALID_PROGRAM))?;
    if let Err(code) = build_program(program.raw(), &[device.device().0], c"", None, std::ptr::null_mut()) {
        return Err(DeviceError::Build { entry: source.entry.clone(), log: log(device, &program, code) });
    }
    let parameters = match function(&program, &entry) {
        Ok(function) => get_kernel_info(function.raw(), CL_KERNEL_NUM_ARGS)
            .map(u32::from)
            .map_err(|code| codes::failed("clGetKernelInfo", code))?,
        Err(CL_INVALID_KERNEL_NAME) => return Err(no_such(names(&program))),
        Err(code) => return Err(codes::failed("clCreateKernel", code)),
    };
    let r#use = match parameters {
        BATCH_PARAMETERS => Use::Batches,
        QUEUES_PARAMETERS => Use::Queues,
        other => {
            return Err(no_such(format!(
                "that function has {other} parameters, and not those of TRANSLOAD_BATCH ({BATCH_PARAMETERS}) or \
                 TRANSLOAD_QUEUES ({QUEUES_PARAMETERS}) in transload_device.h"
            )));
        }
    };
    Ok(Kernel::new(&source.entry, Built { program, entry, r#use, device: device.clone() }))
}

/// The code with the header in the place of the line that includes it. Lines behind it keep their numbers.
fn with_header(text: &str) -> String {
    let mut whole = String::with_capacity(text.len() + OPENCL_AND_CUDA_HEADER.len() + 64);
    for (number, line) in text.lines().enumerate() {
        if line.trim() == INCLUDE {
            whole.push_str("#line 1 \"transload_device.h\"\n");
            whole.push_str(OPENCL_AND_CUDA_HEADER);
            whole.extend(["\n#line ", &(number + 2).to_string(), " \"kernel\"\n"]);
        } else {
            whole.push_str(line);
            whole.push('\n');
        }
    }
    whole
}

/// What the compiler has to say.
fn log(device: &Shared, program: &Handle<Program>, code: i32) -> String {
    let log =
        get_program_build_info(program.raw(), device.device().0, CL_PROGRAM_BUILD_LOG).map(String::from);
    match log {
        Ok(log) if !log.trim().is_empty() => log.trim().to_owned(),
        _ => format!("nothing; clBuildProgram answered {}", codes::name(code)),
    }
}

/// Which functions there are.
fn names(program: &Handle<Program>) -> String {
    match get_program_info(program.raw(), CL_PROGRAM_KERNEL_NAMES).map(String::from) {
        Ok(names) if !names.is_empty() => format!("it has {}", names.replace(';', ", ")),
        Ok(_) => "it has none".to_owned(),
        Err(code) => format!("clCreateKernel answered {}", codes::name(code)),
    }
}

fn function(program: &Handle<Program>, entry: &CString) -> Result<Handle<Function>, i32> {
    let function = create_kernel(program.raw(), entry)?;
    // SAFETY: the call gave us a reference to it.
    unsafe { Handle::own(function) }.ok_or(CL_INVALID_KERNEL)
}

/// The function that a stream has called last. Each stream has its own: arguments are set on the function itself, which only
/// one thread at a time may do.
#[derive(Debug, Default)]
pub(super) struct Functions {
    last: Option<Handle<Function>>,
    /// Whose function it is: an address that stays taken while the function does.
    program: usize,
}

impl Functions {
    /// The one that was asked for last.
    pub(super) fn last(&self) -> Option<&Handle<Function>> {
        self.last.as_ref()
    }

    /// The function of a kernel, if that is for this use, and of this device.
    pub(super) fn of(
        &mut self,
        kernel: &Kernel,
        device: &Arc<Shared>,
        wanted: Use,
    ) -> Result<&Handle<Function>, DeviceError> {
        let other = |reason| DeviceError::OtherKernel { entry: kernel.entry().to_owned(), reason };
        let built: &Built = kernel
            .built()
            .downcast_ref()
            .filter(|built: &&Built| Arc::ptr_eq(&built.device, device))
            .ok_or_else(|| other("it was built by another device: build it with the stream's own"))?;
        match (built.r#use, wanted) {
            (Use::Batches, Use::Queues) => return Err(other("it is for batches: launch it")),
            (Use::Queues, Use::Batches) => return Err(other("it is for queues: dispatch it")),
            _ => {}
        }
        let program = built.program.raw().addr();
        if self.last.is_none() || self.program != program {
            let function = function(&built.program, &built.entry);
            self.last = Some(function.map_err(|code| codes::failed("clCreateKernel", code))?);
            self.program = program;
        }
        self.last.as_ref().ok_or_else(|| codes::failed("clCreateKernel", CL_INVALID_KERNEL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_behind_the_header_keep_their_numbers() {
        let whole = with_header("// one\n  #include \"transload_device.h\"\nthree\n");
        assert!(whole.starts_with("// one\n#line 1 \"transload_device.h\"\n"), "{whole}");
        assert!(whole.ends_with("\n#line 3 \"kernel\"\nthree\n"), "{whole}");
        assert_eq!(with_header("a\nb"), "a\nb\n");
    }
}

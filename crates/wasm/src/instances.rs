//! Instances: a module that is ready to be called.

use parking_lot::{Mutex, MutexGuard};
use wasmi::{Func, Instance, Memory, Store, StoreLimits, StoreLimitsBuilder, TrapCode};

use crate::failure::{Fault, out_of_memory};
use crate::{Limits, Module, ModuleError};

/// How many elements all tables of an instance have at most.
const TABLE_ELEMENTS_MAX: usize = 10_000;
const TABLES_MAX: usize = 16;
/// What may be used before the first call, whatever a call may use: it is used for each batch.
const START_FUEL_MAX: u64 = 10_000_000;
/// What runs before the first call, as compilers name it.
const INITIALIZE: &str = "_initialize";

/// An instance of a module.
pub(crate) struct Live {
    pub store: Store<StoreLimits>,
    pub instance: Instance,
    limits: Limits,
}

impl Live {
    fn new(module: &wasmi::Module, limits: Limits) -> Result<Live, Fault> {
        let within = StoreLimitsBuilder::new()
            .memory_size(limits.memory_bytes_max)
            .table_elements(TABLE_ELEMENTS_MAX)
            .instances(1)
            .tables(TABLES_MAX)
            .memories(1)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(module.engine(), within);
        store.limiter(|limits| limits);
        let fault = |error: wasmi::Error| match error.as_trap_code() {
            Some(TrapCode::OutOfFuel) => Fault::TooMuch(format!(
                "its start takes more than {START_FUEL_MAX} units of fuel; compute tables before, and put them \
                 into its data"
            )),
            Some(_) => Fault::of(&error, &limits),
            // The memory or the tables that it declares.
            None => {
                Fault::TooMuch(format!("an instance cannot be made: {error}; {}", out_of_memory(&limits)))
            }
        };
        store.set_fuel(START_FUEL_MAX).map_err(fault)?;
        let instance = Instance::new(&mut store, module, &[]).map_err(fault)?;
        if let Ok(initialize) = instance.get_typed_func::<(), ()>(&store, INITIALIZE) {
            initialize.call(&mut store, ()).map_err(fault)?;
        }
        Ok(Live { store, instance, limits })
    }

    pub fn function(&self, name: &str) -> Result<Func, Fault> {
        let found = self.instance.get_func(&self.store, name);
        found.ok_or_else(|| Fault::Trap(format!("the module exports no function `{name}`")))
    }

    pub fn memory(&self) -> Result<Memory, Fault> {
        let found = self.instance.get_memory(&self.store, "memory");
        found.ok_or_else(|| Fault::Trap("the module exports no memory".to_owned()))
    }

    /// What the next call may use.
    pub fn refuel(&mut self) -> Result<(), Fault> {
        self.store.set_fuel(self.limits.fuel_max).map_err(|error| self.fault(&error))
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn fault(&self, error: &wasmi::Error) -> Fault {
        Fault::of(error, &self.limits)
    }
}

/// A compiled module, with an instance if there is one that can be used again.
struct Idle {
    compiled: wasmi::Module,
    live: Option<Live>,
}

/// The instances of a function: one for each thread that calls it at the moment. What a module keeps is gone with the batch.
pub(crate) struct Instances {
    module: Module,
    limits: Limits,
    idle: Mutex<Vec<Idle>>,
}

impl Instances {
    pub fn new(module: Module, limits: Limits) -> Instances {
        Instances { module, limits, idle: Mutex::default() }
    }

    /// Whether calls of one instance could depend on each other.
    pub fn keep_state(&self) -> bool {
        self.module.keeps_state()
    }

    /// Does something with an instance. If the module can keep state, nobody has used this instance before.
    pub fn with<T>(&self, work: impl FnOnce(&mut Live) -> Result<T, Fault>) -> Result<T, Fault> {
        let idle = self.lock().pop();
        let mut idle = match idle {
            Some(idle) => idle,
            None => {
                let compiled = self.module.compile().map_err(|error| Fault::TooMuch(error.message))?;
                Idle { compiled, live: None }
            }
        };
        let mut live = match idle.live.take() {
            Some(live) => live,
            None => Live::new(&idle.compiled, self.limits)?,
        };
        let done = work(&mut live);
        if !self.module.keeps_state() {
            idle.live = Some(live);
        }
        self.lock().push(idle);
        done
    }

    /// Makes an instance, so that one that cannot be made is found when the function is defined.
    pub fn try_start(&self) -> Result<(), ModuleError> {
        self.with(|_| Ok(())).map_err(|fault| {
            ModuleError::new(
                format!("the module cannot be started: {}", fault.final_failure()),
                "correct the module, or define the function with a larger memory",
            )
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock()
    }
}

#![cfg_attr(fuzzing, no_main)]

tracebuf_fuzz::target!(tracebuf_fuzz::service::run);

//! Random work: the buffer compared with a plain model, honest writers judged by what they wrote, damaged memory.

mod attach;
mod damaged_memory;
mod grow;
mod honest;
mod hostile;

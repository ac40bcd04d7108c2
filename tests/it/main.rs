//! All integration tests are one program, a module for each subject: it is linked once, and what takes long is made once for all.

mod support;

mod catalog;
mod check;
mod check_logs;
mod command_line;
mod damaged_input;
mod edge;
mod evidence;
mod flight_dumps;
mod frames;
mod golden_screens;
mod golden_worlds;
mod host_facts;
mod host_faults;
mod job_lifecycle;
mod keys;
mod layout;
mod log_reader;
mod network_panes;
mod one_judge;
mod other_node;
mod pictures;
mod process_source;
mod progress;
mod purity;
mod ras_service;
mod scenarios;
mod screen_states;
mod sys_sources;
mod tail;
mod terminal;
mod timeline;

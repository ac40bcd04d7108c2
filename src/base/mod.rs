pub mod exit_code;
pub mod severity;
pub mod words;

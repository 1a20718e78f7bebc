//! http

pub mod dto;

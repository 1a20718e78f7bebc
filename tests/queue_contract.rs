//! queue_contract

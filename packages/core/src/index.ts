import "reflect-metadata";

export { inject, injectable, injectAll } from "tsyringe";
export type * from "./contracts/backend.js";
export type * from "./contracts/clock.js";
export type * from "./contracts/engine-client.js";
export type * from "./contracts/plugin.js";
export type * from "./contracts/scheduler-policy.js";
export type * from "./contracts/tokenizer.js";
export type * from "./contracts/transport.js";
export * from "./contracts/logger.js";
export * from "./contracts/sampling.js";
export * from "./clock/simulated-clock.js";
export * from "./clock/system-clock.js";
export * from "./engine/engine-options.js";
export * from "./errors/cllm-error.js";
export * from "./errors/error-table.js";
export * from "./tokens.js";

/**
 * The parts that a protocol is made of: its definition, routes, checked fields, the engine's requests,
 * chats, errors and streams.
 *
 * @module
 */
export { z } from 'zod'
export * from './routes/define-protocol.js'
export * from './routes/route.js'
export type { StreamWriter } from './stream/resumable-streams.js'
export type * from './routes/koa-context.js'
export * as fields from './fields/fields.js'
export * from './fields/generation-fields.js'
export * from './fields/fields.js'
export * from './fields/mixed-prompts.js'
export * from './request/build-request.js'
export {
  countTokens,
  embedAll,
  type EmbeddingInput,
  isUnpooled,
  shortened,
} from './request/embeddings.js'
export * from './request/generation.js'
export * from './request/protocol-defaults.js'
export * from './request/usage.js'
export * from './chat/chat-messages.js'
export {
  contentOf,
  joined,
  behind,
  withNames,
  filePart,
  checkMedia,
  type ContentPart,
  type MessageContent,
} from './chat/message-content.js'
export * from './chat/plan-answer.js'
export * from './chat/prepare-chat.js'
export * from './chat/answer/answer-part.js'
export * from './chat/answer/create-answer-parser.js'
export type {
  CallObject,
  ArgumentsFormat,
  ArgumentMarks,
  CallFormat,
  ThinkingFormat,
  ChatFormat,
  ToolDefinition,
} from './chat/format/chat-format.js'
export { chatFormatOf } from './chat/format/known-templates.js'
export { learnChatFormat } from './chat/format/learn-chat-format.js'
export type { RenderProbe } from './chat/format/probe.js'
export { type StrictCalls, strictCalls } from './chat/strict-calls.js'
export { type ApiKey, hashKey, type KeyRing } from './security/api-key.js'
export {
  errorBody,
  errorField,
  errorMessage,
  publicError,
  statusElsewhere,
} from './errors/error-body.js'

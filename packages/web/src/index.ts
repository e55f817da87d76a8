export { answerLimit } from './answer-limits.js'

/** The folder with the built page, for `webProtocol` of `@cllm/http-koa`. */
export const pageFolder: URL = new URL('bundle/', import.meta.url)

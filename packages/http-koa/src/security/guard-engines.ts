import { CllmError, type EngineClient, type EngineDirectory, overriding } from '@cllm/core'
import { wrapEngines } from '../engines/wrap-engines.js'
import { requestScope } from './request-scope.js'

/**
 * The same engines as the key of a request may see them: its requests are its tenant's, whatever they
 * say, and those of other tenants do not exist. Admins may do everything.
 */
export function guardEngines(directory: EngineDirectory): EngineDirectory {
  return wrapEngines(directory, guard)
}

function guard(client: EngineClient): EngineClient {
  return overriding(client, {
    submit(request, options) {
      const key = requestScope.getStore()?.key
      if (key === undefined) return client.submit(request, options)
      const tenant = key.role === 'admin' ? (request.tenant ?? key.tenant) : key.tenant
      return client.submit({ ...request, tenant }, options)
    },
    async slotAction(slot, action) {
      const key = requestScope.getStore()?.key
      if (key === undefined || key.role === 'admin') return await client.slotAction(slot, action)
      const message = 'Slots hold what others wrote: saving and restoring needs an admin key'
      throw new CllmError('forbidden', message)
    },
    async explain(id) {
      const report = await client.explain(id)
      const key = requestScope.getStore()?.key
      if (key === undefined || key.role === 'admin' || report.tenant === key.tenant) return report
      const message = `There is no request "${id}" under way or among the last that ended`
      throw new CllmError('request_not_found', message, { details: { id } })
    },
  })
}

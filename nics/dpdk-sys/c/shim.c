/* Functions over what DPDK only offers inline, as macros or as tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wrapper.h"

int shim_errno(void)
{
	return rte_errno;
}

unsigned int shim_lcore_id(void)
{
	return rte_lcore_id();
}

uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_rx_burst(port, queue, mbufs, count);
}

uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, mbufs, count);
}

struct rte_mempool *shim_pktmbuf_pool_create(const char *name, unsigned int count, unsigned int cache, uint16_t room,
					     int node, const char *ops)
{
	struct rte_pktmbuf_pool_private private = { .mbuf_data_room_size = room };
	unsigned int flags = rte_eal_has_pci() ? 0 : RTE_MEMPOOL_F_NO_IOVA_CONTIG;
	struct rte_mempool *pool = rte_mempool_create_empty(name, count, sizeof(struct rte_mbuf) + room, cache,
							    sizeof(private), node, flags);
	int error;

	if (pool == NULL)
		return NULL;
	error = rte_mempool_set_ops_byname(pool, ops, NULL);
	if (error == 0) {
		rte_pktmbuf_pool_init(pool, &private);
		error = rte_mempool_populate_default(pool);
	}
	if (error < 0) {
		rte_mempool_free(pool);
		rte_errno = -error;
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

struct rte_mbuf *shim_mbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int shim_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int count)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, count);
}

void shim_mbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

bool shim_has_mempool_ops(const char *name)
{
	for (unsigned int i = 0; i < rte_mempool_ops_table.num_ops; i++)
		if (strcmp(rte_mempool_ops_table.ops[i].name, name) == 0)
			return true;
	return false;
}

const char *shim_mempool_ops_name(struct rte_mempool *pool)
{
	return rte_mempool_get_ops(pool->ops_index)->name;
}

unsigned int shim_ring_push_8(struct rte_ring *ring, const void *values, unsigned int count)
{
	return rte_ring_sp_enqueue_burst_elem(ring, values, 8, count, NULL);
}

unsigned int shim_ring_push_64(struct rte_ring *ring, const void *values, unsigned int count)
{
	return rte_ring_sp_enqueue_burst_elem(ring, values, 64, count, NULL);
}

unsigned int shim_ring_pop_8(struct rte_ring *ring, void *values, unsigned int count)
{
	return rte_ring_sc_dequeue_burst_elem(ring, values, 8, count, NULL);
}

unsigned int shim_ring_pop_64(struct rte_ring *ring, void *values, unsigned int count)
{
	return rte_ring_sc_dequeue_burst_elem(ring, values, 64, count, NULL);
}

int shim_link_up(uint16_t port)
{
	struct rte_eth_link link = {0};
	int failed = rte_eth_link_get_nowait(port, &link);

	return failed ? failed : link.link_status == RTE_ETH_LINK_UP;
}

int shim_flow_isolate(uint16_t port)
{
	struct rte_flow_error error = {0};

	return rte_flow_isolate(port, 1, &error);
}

int shim_flow_add(uint16_t port, const struct shim_flow *flow, char *reason, size_t room)
{
	/* In 24.11 the IPv6 address is a struct: memcpy fits both. */
	struct rte_flow_item_ipv6 ipv6 = {0}, ipv6_mask = {0};
	struct rte_flow_item_ipv4 ipv4 = {0}, ipv4_mask = { .hdr.dst_addr = RTE_BE32(0xffffffff) };
	struct rte_flow_item_vlan vlans[2] = {0}, vlan_mask = { .hdr.vlan_tci = RTE_BE16(0x0fff) };
	struct rte_flow_item_udp udp = { .hdr.dst_port = flow->udp_port };
	struct rte_flow_item_udp udp_mask = { .hdr.dst_port = RTE_BE16(0xffff) };
	struct rte_flow_attr attributes = { .ingress = 1 };
	struct rte_flow_error error = {0};
	struct rte_flow_item items[6] = {0};
	uint16_t queues[SHIM_FLOW_QUEUES];
	struct rte_flow_action_queue one = { .index = 0 };
	struct rte_flow_action_rss spread = { .types = flow->rss, .queue_num = flow->queues, .queue = queues };
	struct rte_flow_action actions[2] = {0};
	unsigned int count = 0;

	if (flow->tags > 2 || flow->queues == 0 || flow->queues > SHIM_FLOW_QUEUES)
		return -EINVAL;
	items[count++].type = RTE_FLOW_ITEM_TYPE_ETH;
	for (unsigned int tag = 0; tag < flow->tags; tag++) {
		vlans[tag].hdr.vlan_tci = rte_cpu_to_be_16(flow->vlans[tag]);
		items[count++] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_VLAN, .spec = &vlans[tag],
							 .mask = &vlan_mask };
	}
	if (flow->is_ipv6) {
		memcpy(&ipv6.hdr.dst_addr, flow->address, 16);
		memset(&ipv6_mask.hdr.dst_addr, 0xff, 16);
		items[count++] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_IPV6, .spec = &ipv6,
							 .mask = &ipv6_mask };
	} else {
		memcpy(&ipv4.hdr.dst_addr, flow->address, 4);
		items[count++] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &ipv4,
							 .mask = &ipv4_mask };
	}
	items[count++] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &udp_mask };
	items[count].type = RTE_FLOW_ITEM_TYPE_END;
	for (uint16_t queue = 0; queue < flow->queues; queue++)
		queues[queue] = queue;
	if (flow->queues > 1)
		actions[0] = (struct rte_flow_action){ .type = RTE_FLOW_ACTION_TYPE_RSS, .conf = &spread };
	else
		actions[0] = (struct rte_flow_action){ .type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &one };
	actions[1].type = RTE_FLOW_ACTION_TYPE_END;
	if (rte_flow_create(port, &attributes, items, actions, &error) != NULL)
		return 0;
	snprintf(reason, room, "%s", error.message == NULL ? "" : error.message);
	return rte_errno == 0 ? -EIO : -rte_errno;
}

static FILE *log_stream;
static char *log_text;
static size_t log_length;

/* From 25.11 on, rte_eal_init ends the process for arguments that it cannot read. What it has said goes to stderr then. */
static void log_at_exit(void)
{
	if (log_stream != NULL && fflush(log_stream) == 0 && log_text != NULL)
		fputs(log_text, stderr);
}

int shim_log_capture(void)
{
	static bool is_registered;

	if (!is_registered)
		is_registered = atexit(log_at_exit) == 0;
	log_stream = open_memstream(&log_text, &log_length);
	if (log_stream == NULL)
		return -1;
	return rte_openlog_stream(log_stream);
}

char *shim_log_captured(void)
{
	char *text;

	if (log_stream == NULL)
		return NULL;
	rte_openlog_stream(NULL);
	fclose(log_stream);
	log_stream = NULL;
	text = log_text;
	log_text = NULL;
	return text;
}

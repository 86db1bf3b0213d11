/* What the bindings are generated from: DPDK's headers, the shim, and typed constants.
 *
 * bindgen does not evaluate macros with casts, and gives others a type by their value. A typed
 * constant here says both the value and the type. Offsets are taken by the C compiler because newer
 * DPDK moves the fields of rte_mbuf into nameless unions, which changes their Rust path but not this.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_epoll.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_interrupts.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

/* Offsets of the mbuf fields that Rust reads and writes. */
static const size_t DPDK_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr);
static const size_t DPDK_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off);
static const size_t DPDK_MBUF_REFCNT = offsetof(struct rte_mbuf, refcnt);
static const size_t DPDK_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs);
static const size_t DPDK_MBUF_OL_FLAGS = offsetof(struct rte_mbuf, ol_flags);
static const size_t DPDK_MBUF_PACKET_TYPE = offsetof(struct rte_mbuf, packet_type);
static const size_t DPDK_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len);
static const size_t DPDK_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len);
static const size_t DPDK_MBUF_BUF_LEN = offsetof(struct rte_mbuf, buf_len);
static const size_t DPDK_MBUF_TX_OFFLOAD = offsetof(struct rte_mbuf, tx_offload);

/* Bit positions in tx_offload. */
static const uint32_t DPDK_MBUF_L2_LEN_SHIFT = RTE_MBUF_L2_LEN_OFS;
static const uint32_t DPDK_MBUF_L3_LEN_SHIFT = RTE_MBUF_L3_LEN_OFS;

/* Flags of received mbufs. */
static const uint64_t DPDK_RX_IP_CKSUM_BAD = RTE_MBUF_F_RX_IP_CKSUM_BAD;
static const uint64_t DPDK_RX_IP_CKSUM_GOOD = RTE_MBUF_F_RX_IP_CKSUM_GOOD;
static const uint64_t DPDK_RX_IP_CKSUM_NONE = RTE_MBUF_F_RX_IP_CKSUM_NONE;
static const uint64_t DPDK_RX_L4_CKSUM_BAD = RTE_MBUF_F_RX_L4_CKSUM_BAD;
static const uint64_t DPDK_RX_L4_CKSUM_GOOD = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
static const uint64_t DPDK_RX_L4_CKSUM_NONE = RTE_MBUF_F_RX_L4_CKSUM_NONE;

/* Flags of mbufs to transmit. */
static const uint64_t DPDK_TX_IPV4 = RTE_MBUF_F_TX_IPV4;
static const uint64_t DPDK_TX_IPV6 = RTE_MBUF_F_TX_IPV6;
static const uint64_t DPDK_TX_IP_CKSUM = RTE_MBUF_F_TX_IP_CKSUM;
static const uint64_t DPDK_TX_UDP_CKSUM = RTE_MBUF_F_TX_UDP_CKSUM;

/* Flags that say where an mbuf's data lives; they must survive. */
static const uint64_t DPDK_MBUF_NOT_DIRECT = RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;

/* Port configuration. */
static const uint64_t DPDK_RX_OFFLOAD_IPV4_CKSUM = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
static const uint64_t DPDK_RX_OFFLOAD_UDP_CKSUM = RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
static const uint64_t DPDK_RX_OFFLOAD_VLAN_FILTER = RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
static const uint64_t DPDK_TX_OFFLOAD_IPV4_CKSUM = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
static const uint64_t DPDK_TX_OFFLOAD_UDP_CKSUM = RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
static const uint64_t DPDK_TX_OFFLOAD_FAST_FREE = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
static const uint64_t DPDK_RSS_IP = RTE_ETH_RSS_IP;
static const uint64_t DPDK_RSS_IPV4 = RTE_ETH_RSS_IPV4;
static const uint64_t DPDK_RSS_IPV6 = RTE_ETH_RSS_IPV6;
static const uint64_t DPDK_RSS_UDP = RTE_ETH_RSS_UDP;
static const uint32_t DPDK_MQ_RX_NONE = RTE_ETH_MQ_RX_NONE;
static const uint32_t DPDK_MQ_RX_RSS = RTE_ETH_MQ_RX_RSS;

/* Events that say a device is being removed, or is gone. */
static const uint32_t DPDK_DEV_EVENT_REMOVE = RTE_DEV_EVENT_REMOVE;
static const uint32_t DPDK_ETH_EVENT_REMOVED = RTE_ETH_EVENT_INTR_RMV;

/* What to do with the file of an RX interrupt. */
static const int DPDK_INTR_ADD = RTE_INTR_EVENT_ADD;
static const int DPDK_INTR_REMOVE = RTE_INTR_EVENT_DEL;

/* Limits and special values. */
static const uint16_t DPDK_MAX_PORTS = RTE_MAX_ETHPORTS;
static const uint64_t DPDK_NO_OWNER = RTE_ETH_DEV_NO_OWNER;
static const uint16_t DPDK_MBUF_HEADROOM = RTE_PKTMBUF_HEADROOM;
static const uint32_t DPDK_LCORE_ANY = LCORE_ID_ANY;
static const uint32_t DPDK_RING_SP_SC = RING_F_SP_ENQ | RING_F_SC_DEQ;

/* rte_errno of this thread. */
int shim_errno(void);

/* The lcore id of this thread, LCORE_ID_ANY if it has none. */
unsigned int shim_lcore_id(void);

/* The inline burst functions, as DPDK wrote them: what the Rust ones are measured against. */
uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);

/* A pool of mbufs as rte_pktmbuf_pool_create_by_ops makes it, but without gaps between them at the ends of pages if there
 * are no PCI devices. Only these need a buffer whose IO addresses are contiguous, and net_af_xdp shares no gaps with the
 * kernel: it computes the length of the shared memory from the number of mbufs. */
struct rte_mempool *shim_pktmbuf_pool_create(const char *name, unsigned int count, unsigned int cache, uint16_t room,
					     int node, const char *ops);

/* One mbuf, reset; NULL when the pool is empty. */
struct rte_mbuf *shim_mbuf_alloc(struct rte_mempool *pool);

/* `count` mbufs or none: 0 or a negative errno. */
int shim_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int count);

/* Gives one mbuf back. */
void shim_mbuf_free(struct rte_mbuf *mbuf);

/* Whether a mempool driver of this name is loaded. */
bool shim_has_mempool_ops(const char *name);

/* The name of the driver that keeps a pool's free objects. */
const char *shim_mempool_ops_name(struct rte_mempool *pool);

/* As many of `count` values as there is room for, or as there are: a ring with one thread at each end, of
 * values of 8 or 64 bytes. The size is part of the name because DPDK's copying is made for constants. */
unsigned int shim_ring_push_8(struct rte_ring *ring, const void *values, unsigned int count);
unsigned int shim_ring_push_64(struct rte_ring *ring, const void *values, unsigned int count);
unsigned int shim_ring_pop_8(struct rte_ring *ring, void *values, unsigned int count);
unsigned int shim_ring_pop_64(struct rte_ring *ring, void *values, unsigned int count);

/* 1 when the link is up, 0 when it is down, a negative errno when the port cannot tell. */
int shim_link_up(uint16_t port);

/* RX queues that a rule can spread frames over. */
#define SHIM_FLOW_QUEUES 64

/* Which frames a rule takes: UDP to an address and a port. `tags` is the number of VLAN tags, the outer id first. Address and
 * port are in the order of the network. */
struct shim_flow {
	uint8_t address[16];
	uint16_t udp_port;
	uint16_t vlans[2];
	uint8_t tags;
	bool is_ipv6;
	/* The frames go to the queues 0 to `queues` - 1, by the hash functions `rss`. */
	uint16_t queues;
	uint64_t rss;
};

/* From the start on, the port gets only what rules take; the rest is the kernel's. 0 or a negative errno, as the next. */
int shim_flow_isolate(uint16_t port);

/* Gives the port a rule. Into `reason` goes what the driver says if it refuses. */
int shim_flow_add(uint16_t port, const struct shim_flow *flow, char *reason, size_t room);

/* From here on the EAL's log goes into memory instead of stderr; 0 or -1. */
int shim_log_capture(void);

/* Ends that, and gives the text, to be freed by the caller; NULL when nothing was captured. */
char *shim_log_captured(void);
